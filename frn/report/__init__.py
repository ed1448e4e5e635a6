"""Result pages: each is one self-contained HTML file that needs no network."""
