"""Settings remembered between starts."""
