"""Open document and its actions."""
