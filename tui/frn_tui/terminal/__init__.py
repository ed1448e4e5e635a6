"""Capabilities of the terminal, and output to it."""
