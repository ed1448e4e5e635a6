"""`python -m frn` is the `frn` command."""

from frn.cli.main import run

run()
