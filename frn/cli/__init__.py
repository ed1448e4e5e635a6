"""The `frn` command: one file per command. Importing this package does not import torch."""
