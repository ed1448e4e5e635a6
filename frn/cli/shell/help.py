"""`frn help`: commands, and topics that belong to none of them."""

from typing import Annotated, Any

import typer

from frn.cli.shell.console import print_json, user_errors
from frn.cli.shell.schemas import SCHEMAS
from frn.cli.shell.topics import TOPICS
from frn.errors import FrnError


def show_help(
    context: typer.Context,
    topic: Annotated[
        list[str] | None, typer.Argument(help="A command, a topic, or `json` and a command.", show_default=False)
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
    if command not in SCHEMAS:
        raise FrnError(f"{command!r} has no JSON that is described here; these have: {', '.join(SCHEMAS)}")
    return SCHEMAS[command]


def _show_command(context: Any, words: list[str]) -> None:
    """Print what `--help` does."""
    for word in words:
        commands = getattr(context.command, "commands", {})
        if word not in commands:
            known = [*commands, *([] if context.parent else TOPICS)]
            hint = f"There are: {', '.join(known)}" if known else f"`frn {context.info_name}` has none."
            raise FrnError(f"there is no command or topic {word!r}. {hint}")
        context = type(context)(commands[word], info_name=word, parent=context)
    text = context.command.get_help(context)
    if text:  # empty where it has been printed
        print(text)
