"""The only door to image files."""
