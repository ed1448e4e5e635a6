"""`frn help`: commands and general topics."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from frn.cli.shell.console import print_json, user_errors
from frn.cli.shell.topics import TOPICS
from frn.errors import FrnError

EXAMPLES = {
    "classify": ("frn classify birds unknown.jpg", "frn classify birds photos --out results.jsonl"),
    "enroll": ("frn enroll birds --out birds.frn.json", "frn enroll jay=my/jays wren=my/wrens --out two.frn.json"),
    "explain": ("frn explain birds unknown.jpg --out why.png",),
    "score": ("frn score birds labelled-birds --report score.html",),
    "export": ("frn export --out exported --classes birds", "frn export --web page --classes birds"),
    "finetune": ("frn finetune photos --out runs/mine",),
    "train": ("frn train demo", "frn train cifar-fs-conv4 --data data/cifar-fs --out runs/frn"),
    "eval": ("frn eval runs/frn --data data/cifar-fs", "frn eval conv4 --data data/cifar-fs --shot 1 --json"),
    "reproduce": ("frn reproduce --list", "frn reproduce cub-cropped --data cub-cropped=data/cub"),
}
"""Example command lines, shown at the end of each command's help."""


def prepare_help(commands: Mapping[str, Any]) -> None:
    """Join the lines of each paragraph, because Typer would keep the line breaks, and add the examples."""
    for name, command in commands.items():
        command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", command.help or "")
        if examples := EXAMPLES.get(name):
            command.epilog = "\n    ".join(["Examples:\n", *examples])
        for subcommand in getattr(command, "commands", {}).values():
            prepare_help({"": subcommand})  # examples belong to top-level commands


def show_help(
    context: typer.Context,
    topic: Annotated[
        list[str] | None,
        typer.Argument(help="A command, a topic, or `json` followed by a command.", show_default=False),
    ] = None,
) -> None:
    """Explain a command or a topic: exit-codes, json, environment, defaults, completion."""
    words = topic or []
    with user_errors():
        assert context.parent is not None
        if len(words) > 1 and words[0] == "json":
            print_json(_schema(" ".join(words[1:])))
        elif len(words) == 1 and words[0] in TOPICS:
            print(f"{TOPICS[words[0]].title}\n\n{TOPICS[words[0]].text}")
        else:
            _show_command(context.parent, words)
            if not words:
                print(f" frn help TOPIC: {', '.join(TOPICS)}")


def _schema(command: str) -> dict[str, Any]:
    from frn.cli.shell.schemas import RESULTS, schema

    if command not in RESULTS:
        raise FrnError(f"{command!r} has no JSON schema. These commands have one: {', '.join(RESULTS)}")
    return schema(command)


def _show_command(context: Any, words: list[str]) -> None:
    """Print the same text as `--help`."""
    for word in words:
        commands = getattr(context.command, "commands", {})
        if word not in commands:
            known = [*commands, *([] if context.parent else TOPICS)]
            hint = f"Choose one of: {', '.join(known)}" if known else f"`frn {context.info_name}` has no subcommands."
            raise FrnError(f"no command or topic {word!r}. {hint}")
        context = type(context)(commands[word], info_name=word, parent=context)
    text = context.command.get_help(context)
    if text:  # empty if it has already been printed
        print(text)
