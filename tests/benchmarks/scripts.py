"""Run the scripts in assets/benchmarks in-process."""

import importlib

import typer
from typer.testing import CliRunner, Result


def invoke(script: str, *words: object) -> Result:
    """Run a script with these command-line arguments."""
    app = typer.Typer()
    app.command()(importlib.import_module(script).main)
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)


def output(script: str, *words: object) -> str:
    """Run a script that must succeed, and return its output."""
    result = invoke(script, *words)
    assert result.exit_code == 0, result.stderr
    return result.stdout
