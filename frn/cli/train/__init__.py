"""Commands that train and evaluate models. Importing them does not import torch."""
