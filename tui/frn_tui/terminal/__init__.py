"""Capabilities of the terminal, and drawing on it."""
