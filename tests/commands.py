"""Runs `frn` in this process."""

from typer.testing import CliRunner, Result

from frn.cli.main import app


def frn(*words: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], input=stdin, catch_exceptions=False)
