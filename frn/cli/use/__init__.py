"""Commands that use a model. Importing them imports no torch."""
