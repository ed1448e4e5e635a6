"""What decides a run: its preset as a checkpoint stores it, compared when the run is resumed."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from frn.training.presets.preset import Preset

DESCRIPTION = ("about", "published")
"""What a preset says of itself that decides nothing."""
LENGTHENING = ("schedule.epochs", "schedule.milestones", "validation.every")
"""Settings that may change if a run is extended."""


def deciding_fields(preset: Preset) -> dict[str, Any]:
    """Return what a resumed run must share with its beginning, as `config.toml` shows it."""
    return {name: value for name, value in asdict(preset).items() if name not in DESCRIPTION}


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Say where a stored run's settings differ from those of today; a setting that only one has decides nothing."""
    old, new = _flat(before), _flat(json.loads(json.dumps(now)))
    return [
        f"{key} was {old[key]} and is {new[key]}" for key in sorted(old.keys() & new.keys()) if old[key] != new[key]
    ]


def lengthens(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether a stored run has fewer epochs than it is to have now, and otherwise the same settings."""
    epochs = [_flat(run).get("schedule.epochs", 0) for run in (before, now)]
    others = [change for change in changes(before, now) if not change.startswith(LENGTHENING)]
    return epochs[0] < epochs[1] and not others


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
