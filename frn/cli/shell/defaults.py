"""`frn.toml`: defaults for options, so that they need not be typed."""

import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from frn.cli.shell.console import note
from frn.errors import FrnError
from frn.system.files import is_there, read_regular

NAME = "frn.toml"
MAX_BYTES = 1 << 20


def take_defaults(context: typer.Context) -> None:
    """Let options of the command that is called default to what the files say, and say which do.

    The file in the current folder comes before the one in the user's configuration folder.

    Raises:
        FrnError: naming the file, if it is no TOML, or names a command or an option that there is none of.
    """
    defaults: dict[str, Any] = {}
    for path in _files():
        tables = _read(path)
        found = _by_parameter(tables, context.command, path)
        if called := list(_words(tables.get(str(context.invoked_subcommand)))):
            note(f"defaults of {path}: {shlex.join(called)}")
        defaults = _merged(defaults, found)
    context.default_map = defaults


def _files() -> Iterator[Path]:
    """Those that are there, the weaker first."""
    from platformdirs import user_config_path

    for path in (user_config_path("frn", appauthor=False) / NAME, Path(NAME)):
        if is_there(path):
            yield path


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_regular(path, MAX_BYTES).decode())
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, FrnError) else FrnError(f"{path}: is not TOML ({error})") from error


def _by_parameter(table: Mapping[str, Any], command: Any, path: Path, above: str = "") -> dict[str, Any]:
    """Values by the names of a command's parameters, from values by the names of its options."""
    parameters = {
        word.removeprefix("--"): parameter
        for parameter in command.params
        for word in getattr(parameter, "opts", ())
        if word.startswith("--")
    }
    commands = getattr(command, "commands", {})
    found: dict[str, Any] = {}
    for key, value in table.items():
        if key in commands and isinstance(value, Mapping):
            found[key] = _by_parameter(value, commands[key], path, f"{above}{key} ")
        elif key in parameters and above and not isinstance(value, Mapping):
            found[str(parameters[key].name)] = value
        else:
            known = sorted({*parameters, *commands} if above else commands)
            where = f"[{above.strip().replace(' ', '.')}]" if above else "it"
            raise FrnError(f"{path}: {where} has {key!r}, but `frn {above}` knows: {', '.join(known)}")
    return found


def _words(table: object) -> Iterator[str]:
    """The options of a table as one would type them."""
    for key, value in table.items() if isinstance(table, Mapping) else ():
        if isinstance(value, Mapping):
            yield from (key, *_words(value))
        elif value is True:
            yield f"--{key}"
        elif value is not False:
            for each in value if isinstance(value, list) else [value]:
                yield from (f"--{key}", str(each))


def _merged(weak: Mapping[str, Any], strong: Mapping[str, Any]) -> dict[str, Any]:
    both = weak.keys() & strong.keys()
    inner = {k: _merged(weak[k], strong[k]) for k in both if isinstance(weak[k], dict) and isinstance(strong[k], dict)}
    return {**weak, **strong, **inner}
