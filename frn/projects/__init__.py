"""Classes of example photos: where they come from, and their names."""
