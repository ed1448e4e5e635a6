"""Unlabelled photos: they refine given classes, or are grouped into new ones."""
