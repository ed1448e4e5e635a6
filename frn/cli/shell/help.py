"""`frn help`: commands and general topics."""

import re
from collections.abc import Mapping
from pathlib import Path
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
    "reproduce": ("frn reproduce --list", "frn reproduce cub-cropped --data cub-cropped=data/cub"),
}
"""Example command lines, shown at the end of each command's help."""

TEXT = Path(__file__).with_name("topics.md").read_text(encoding="utf-8")
TOPICS = dict(part.strip().split(": ", 1) for part in re.split(r"^# (?=[\w-]+: )", TEXT, flags=re.MULTILINE)[1:])
"""Texts for `frn help TOPIC`: a title and a body; `docs/reference/command-line.md` repeats them."""
OUTPUTS = ("--out", "--web", "--report", "--runs")
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
        own = f"{prefix}_{name}".upper().replace("-", "_")
        prepare(getattr(command, "commands", {}), own)
        for parameter in command.params:
            word = next((word for word in parameter.opts if word.startswith("--")), "")
            if parameter.opts[0].startswith("-") and parameter.is_flag:
                parameter.metavar = ""  # Typer would show the type, as if the flag took a value
            if word and word not in NEVER:
                parameter.envvar = own + word[1:].upper().replace("-", "_")
                parameter.show_envvar = False  # `frn help defaults` explains the names


@user_errors()
def show_help(
    context: typer.Context,
    topic: Annotated[
        list[str] | None,
        typer.Argument(help="A command, a topic, or `json` followed by a command.", show_default=False),
    ] = None,
) -> None:
    """Explain a command or a topic: exit-codes, json, environment, defaults, completion."""
    words = topic or []
    assert context.parent is not None
    if len(words) > 1 and words[0] == "json":
        from frn.cli.shell.schemas import RESULTS, schema

        if (command := " ".join(words[1:])) not in RESULTS:
            raise FrnError(f"{command!r} has no JSON schema. These commands have one: {', '.join(RESULTS)}")
        print_json(schema(command))
    elif len(words) == 1 and words[0] in TOPICS:
        print(TOPICS[words[0]])
    else:
        _show_command(context.parent, words)
        if not words:
            print(f" frn help TOPIC: {', '.join(TOPICS)}")


def _show_command(context: Any, words: list[str]) -> None:
    """Print the same text as `--help`."""
    for word in words:
        commands = getattr(context.command, "commands", {})
        if word not in commands:
            shown = [name for name, command in commands.items() if not command.hidden]
            known = [*shown, *([] if context.parent else TOPICS)]
            hint = f"Choose one of: {', '.join(known)}" if known else f"`frn {context.info_name}` has no subcommands."
            raise FrnError(f"no command or topic {word!r}. {hint}")
        context = type(context)(commands[word], info_name=word, parent=context)
    text = context.command.get_help(context)
    if text:  # empty if it has already been printed
        print(text)
