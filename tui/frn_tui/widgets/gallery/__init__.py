"""Many images in a grid or a list."""
