"""Image files: this package is the only way to open them."""
