"""Photos as pixels and cells for the terminal."""
