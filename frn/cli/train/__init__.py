"""Commands that train and evaluate models. Importing them imports no torch."""
