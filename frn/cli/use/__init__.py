"""Commands that use a model. Importing them does not import torch."""
