"""Class folders, their decoded pixels, and what is done to pixels before a network sees them."""
