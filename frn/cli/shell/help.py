"""Help of commands, and the JSON Schema of their output."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from frn.cli.shell.console import print_json, user_errors
from frn.errors import FrnError

EXAMPLES = {
    "classify": ("frn classify birds new.jpg", "frn classify birds photos --out results.jsonl"),
    "enroll": ("frn enroll birds --out birds.frn.json", "frn enroll jay=my/jays wren=my/wrens --out two.frn.json"),
    "explain": ("frn explain birds new.jpg --out why.png",),
    "score": ("frn score birds labelled-birds --report score.html",),
    "export": ("frn export --out exported --classes birds", "frn export --web page --classes birds"),
    "finetune": ("frn finetune photos --out runs/mine",),
    "train": ("frn train demo", "frn train cifar-fs-conv4 --data data/cifar-fs --out runs/frn"),
    "eval": ("frn eval runs/frn --data data/cifar-fs", "frn eval conv4 --data data/cifar-fs --shot 1 --json"),
    "reproduce": ("frn reproduce", "frn reproduce cub-cropped --data cub-cropped=data/cub"),
}
"""Example command lines, shown at the end of each command's help."""

OUTPUTS = ("--out", "--web", "--report", "--crops", "--runs")
"""Options that, if they take a value, name an output file or folder."""
NEVER = (*OUTPUTS, "--replace", "--download", "--version")
"""Options that no environment variable sets, because it must not choose output files or use the network."""


def prepare(commands: Mapping[str, Any], prefix: str = "FRN") -> None:
    """Complete the commands: help with whole paragraphs and examples, and defaults from environment variables.

    FRN_CLASSIFY_TOP=5 sets the default of `frn classify --top`.
    """
    for name, command in commands.items():
        command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", command.help or "")  # Typer would keep the line breaks
        if prefix == "FRN" and (examples := EXAMPLES.get(name)):
            command.epilog = "\n    ".join(["Examples:\n", *examples])
        variable = f"{prefix}_{name}".upper().replace("-", "_")
        prepare(getattr(command, "commands", {}), variable)
        for parameter in command.params:
            word = next((word for word in parameter.opts if word.startswith("--")), "")
            if parameter.opts[0].startswith("-") and parameter.is_flag:
                parameter.metavar = ""  # Typer would show the type, as if the flag took a value
            if word and word not in NEVER:
                parameter.envvar = variable + word[1:].upper().replace("-", "_")
                parameter.show_envvar = False


@user_errors()
def show_help(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A command, or `json` followed by a command.", show_default=False),
    ] = None,
) -> None:
    """Explain a command, or print the JSON Schema of its output."""
    words = command or []
    assert context.parent is not None
    if len(words) > 1 and words[0] == "json":
        from frn.cli.shell.schemas import RESULTS, schema

        if (name := " ".join(words[1:])) not in RESULTS:
            raise FrnError(f"{name!r} has no JSON schema. These commands have one: {', '.join(RESULTS)}")
        print_json(schema(name))
    else:
        _show_command(context.parent, words)


def _show_command(context: Any, words: list[str]) -> None:
    """Print the same text as `--help`."""
    for word in words:
        commands = getattr(context.command, "commands", {})
        if word not in commands:
            shown = [name for name, command in commands.items() if not command.hidden]
            hint = f"Choose one of: {', '.join(shown)}" if shown else f"`frn {context.info_name}` has no subcommands."
            raise FrnError(f"no command {word!r}. {hint}")
        context = type(context)(commands[word], info_name=word, parent=context)
    text = context.command.get_help(context)
    if text:  # empty if it has already been printed
        print(text)
