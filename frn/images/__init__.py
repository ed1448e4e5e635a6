"""Image files; all other packages open images through this package."""
