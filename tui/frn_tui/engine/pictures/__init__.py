"""Photos as pixels and terminal cells."""
