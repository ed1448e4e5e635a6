"""Many pictures side by side, or as a list."""
