"""Dialogs over a screen. Each returns a value, or None if it was closed."""
