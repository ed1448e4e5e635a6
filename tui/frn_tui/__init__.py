"""Terminal app."""
