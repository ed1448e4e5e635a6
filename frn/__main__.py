"""`python -m frn` is the `frn` command (so that `torchrun -m frn` finds it)."""

from frn.cli.main import run

run()
