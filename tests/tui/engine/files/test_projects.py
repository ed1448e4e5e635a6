"""Exports and overwriting, with the exact numbers of what is written."""
