"""Settings from a TOML file applied to a preset, named as in a run's `config.toml`. This module does not need torch."""

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
    """Return the tables of a TOML file. Raises FrnError if the file cannot be read or is not TOML."""
    data = read_regular(path, MAX_BYTES)
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # not TOML or not UTF-8
        raise FrnError(f"{path}: is not a TOML file ({error})") from error


def overlay(settings: Settings, table: Mapping[str, Any], where: str, *, whole: bool = False) -> Settings:
    """Return a dataclass with fields replaced from a table, and those of nested dataclasses from its subtables.

    TOML has no None: a field missing from a `whole` table, as a run writes it, becomes None if its type allows. Raises
    FrnError, mentioning `where`, if a field does not exist or a value has the wrong type.
    """
    hints = get_type_hints(type(settings))
    names = [field.name for field in fields(settings) if field.name not in DESCRIPTION]  # type: ignore[arg-type]
    changed: dict[str, Any] = {}
    if whole:
        changed = {name: None for name in names if name not in table and type(None) in get_args(hints[name])}
    for name, value in table.items():
        if name not in names:
            raise FrnError(f"{where}: unknown setting {name!r}; choose from {', '.join(names)}")
        before = getattr(settings, name)
        if is_dataclass(before) and isinstance(value, Mapping):
            changed[name] = overlay(before, value, f"{where}, [{name}]", whole=whole)
        else:
            try:
                changed[name] = msgspec.convert(value, hints[name])
            except msgspec.ValidationError as error:
                choices = get_args(hints[name]) if get_origin(hints[name]) is Literal else [before]
                like = " or ".join(map(repr, choices))
                raise FrnError(f"{where}: {name} is {value!r}, but must have the type of {like}") from error
    return replace(settings, **changed)  # type: ignore[type-var]
