"""Settings from a TOML file over those of a preset, by the names of a run's `config.toml`. Free of torch."""

import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from frn.errors import FrnError
from frn.system.files import read_regular
from frn.training.presets.record import DESCRIPTION

MAX_BYTES = 1 << 20

Settings = TypeVar("Settings")


def read_settings(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. FrnError if it cannot be read, or is not TOML."""
    data = read_regular(path, MAX_BYTES)
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8
        raise FrnError(f"{path}: is no TOML file ({error})") from error


def overlay(settings: Settings, table: Mapping[str, Any], where: str, *, whole: bool = False) -> Settings:
    """A dataclass with some of its fields from a table, the fields of its parts from tables in that one.

    TOML has no None: of a `whole` table, as a run writes it, what is missing is None if it can be. FrnError if there
    is no such field, or the value is of another kind; it calls the table `where`.
    """
    hints = get_type_hints(type(settings))
    names = [field.name for field in fields(settings) if field.name not in DESCRIPTION]  # type: ignore[arg-type]
    changed: dict[str, Any] = {}
    if whole:
        changed = {name: None for name in names if name not in table and type(None) in get_args(hints[name])}
    for name, value in table.items():
        if name not in names:
            raise FrnError(f"{where}: there is no setting {name!r}; there are {', '.join(names)}")
        before = getattr(settings, name)
        if is_dataclass(before) and isinstance(value, Mapping):
            changed[name] = overlay(before, value, f"{where}, [{name}]", whole=whole)
        else:
            try:
                changed[name] = msgspec.convert(value, hints[name])
            except msgspec.ValidationError as error:
                choices = get_args(hints[name]) if get_origin(hints[name]) is Literal else [before]
                like = " or ".join(map(repr, choices))
                raise FrnError(f"{where}: {name} is {value!r}, but must be like {like}") from error
    return replace(settings, **changed)  # type: ignore[type-var]
