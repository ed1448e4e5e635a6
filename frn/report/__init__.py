"""Pages that show results: each one self-contained HTML file that asks nothing of a network."""
