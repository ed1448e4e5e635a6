"""The settings that determine a run, as stored in a checkpoint and compared on resuming."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from frn.training.presets.preset import Preset

DESCRIPTION = ("about", "published")
"""Fields of a preset that only describe it."""
LENGTHENING = ("schedule.epochs", "schedule.milestones", "validation.every")
"""Settings that may change if a run is extended."""


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
