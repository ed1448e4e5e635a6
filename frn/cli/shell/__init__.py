"""Code that all commands share."""
