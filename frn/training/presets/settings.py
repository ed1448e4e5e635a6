"""Settings as tables, named as in a run's `config.toml`: applied to a preset, and compared when a run is resumed.

This module does not need torch.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from frn.errors import FrnError
from frn.system.files import read_regular
from frn.training.presets.preset import Preset

MAX_BYTES = 1 << 20
DESCRIPTION = ("about", "published")
"""Fields of a preset that only describe it."""
LENGTHENING = ("schedule.epochs", "schedule.milestones", "validation.every")
"""Settings that may change if a run is extended."""

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


def deciding_fields(preset: Preset) -> dict[str, Any]:
    """Return the settings that a resumed run must keep, as in `config.toml`."""
    return {name: value for name, value in asdict(preset).items() if name not in DESCRIPTION}


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences between a stored run's settings and current ones; settings in only one are ignored."""
    old, new = _flat(before), _flat(json.loads(json.dumps(now)))
    return [
        f"{key} was {old[key]} and is {new[key]}" for key in sorted(old.keys() & new.keys()) if old[key] != new[key]
    ]


def lengthens(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether the new settings differ from a stored run's only by more epochs."""
    epochs = [_flat(run).get("schedule.epochs", 0) for run in (before, now)]
    others = [change for change in changes(before, now) if not change.startswith(LENGTHENING)]
    return epochs[0] < epochs[1] and not others


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
