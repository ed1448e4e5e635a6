"""The `frn` command: one file per command. Importing this imports no torch."""
