"""The `frn` command line; commands are listed in the order in which users meet them."""

import re
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from frn._version import __version__
from frn.cli.shell.console import plain_ending, user_errors
from frn.cli.shell.help import HELP, prepare, show_help
from frn.cli.train.data import app as data_app
from frn.cli.train.evaluate import evaluate
from frn.cli.train.reproduce import reproduce
from frn.cli.train.train import finetune, presets, train
from frn.cli.use.classify import classify
from frn.cli.use.enroll import enroll
from frn.cli.use.explain import explain
from frn.cli.use.export import export
from frn.cli.use.group import group
from frn.cli.use.models import app as models_app
from frn.cli.use.score import score
from frn.errors import FrnError
from frn.images.boxes import path_of_url
from frn.system.hardware import leave_threads_to_networks


def local_words(words: list[str]) -> list[str]:
    """Return the command-line arguments, with `file:` URLs replaced by paths.

    Raises FrnError if an argument is an address on another machine.
    """
    words = [path_of_url(word) for word in words]
    if web := [word for word in words if word.startswith(("http://", "https://"))]:
        raise FrnError(f"{web[0]}: frn only reads local files. Download it first, then pass the file.")
    return words


class Commands(TyperGroup):
    """Command group that shows errors as one line, and rejects empty arguments, which would name the current folder."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Before parsing, complete the help, and reject empty arguments and web addresses."""
        prepare({"": self})
        with user_errors():
            if not ctx.resilient_parsing and any(not word or re.fullmatch(r"[^=]+=", word) for word in args):
                raise FrnError("an argument is empty. Is a shell variable unset?")
            args = args if ctx.resilient_parsing else local_words(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; its errors are one line."""
        with user_errors():
            return super().invoke(ctx)


app = typer.Typer(
    name="frn",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP},
    help="Sort photos into your own classes from a few examples each, without training. "
    "The terminal app is [bold]frn-tui[/bold].\n\n"
    "A photo gets the label of the class whose few example photos best reconstruct its feature map.",
    epilog="Start with:  [bold]frn classify[/bold] FOLDER PHOTO   ·   [bold]frn train demo[/bold]   ·   "
    "[bold]frn-tui[/bold] (the app)   ·   [bold]frn help[/bold]",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"frn {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Define the options that precede the command."""
    leave_threads_to_networks()


app.command(rich_help_panel="Use a model")(classify)
app.command(rich_help_panel="Use a model")(enroll)
app.command(rich_help_panel="Use a model")(explain)
app.command(rich_help_panel="Use a model")(score)
app.command(rich_help_panel="Use a model")(group)
app.command(rich_help_panel="Use a model")(export)
app.add_typer(models_app, name="models", rich_help_panel="Use a model")
app.command(rich_help_panel="Train and measure")(finetune)
app.command(rich_help_panel="Train and measure")(train)
app.command("eval", rich_help_panel="Train and measure")(evaluate)
app.command(rich_help_panel="Train and measure")(presets)
app.command(rich_help_panel="Train and measure")(reproduce)
app.add_typer(data_app, name="data", rich_help_panel="Train and measure")
app.command("help", rich_help_panel="Help")(show_help)


def run() -> None:
    """Run the command line, and end without a traceback."""
    with plain_ending():
        app()
