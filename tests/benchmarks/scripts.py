"""The commands of assets/benchmarks, called in this process."""

import importlib

import typer
from typer.testing import CliRunner, Result


def invoke(script: str, *words: object) -> Result:
    """Call a script with its words."""
    app = typer.Typer()
    app.command()(importlib.import_module(script).main)
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)


def output(script: str, *words: object) -> str:
    """What a script prints, which ends well."""
    result = invoke(script, *words)
    assert result.exit_code == 0, result.stderr
    return result.stdout
