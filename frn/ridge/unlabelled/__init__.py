"""Use of photos without labels: they refine given classes, or are grouped into new ones."""
