"""Help of commands, and the JSON Schema of their output."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from frn.cli.shell.console import print_json
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
HELP = ["-h", "--help"]


def prepare(commands: Mapping[str, Any]) -> None:
    """Complete the help of commands: whole paragraphs, and examples."""
    for name, command in commands.items():
        command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", command.help or "")  # Typer would keep the line breaks
        if examples := EXAMPLES.get(name):
            command.epilog = "\n    ".join(["Examples:\n", *examples])
        prepare(getattr(command, "commands", {}))
        own_help = command.get_help_option(typer.Context(command, help_option_names=HELP))
        for parameter in (*command.params, own_help):
            if parameter.opts[0].startswith("-") and parameter.is_flag:
                parameter.metavar = ""  # Typer would show the type, as if the flag took a value


def show_help(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(help="A command, or `json` followed by a command.", show_default=False)
    ] = None,
) -> None:
    """Explain a command, or print the JSON Schema of its output."""
    words = command or []
    if len(words) > 1 and words[0] == "json":
        from frn.cli.shell.schemas import RESULTS, schema

        if (name := " ".join(words[1:])) not in RESULTS:
            raise FrnError(f"{name!r} has no JSON schema. These commands have one: {', '.join(RESULTS)}")
        print_json(schema(name))
    else:
        context.find_root().command([*words, "--help"], prog_name="frn")
