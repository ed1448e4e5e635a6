"""A preset as flat data: by the names of `frn presets --json`, and as a run's checkpoint stores it."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import reduce
from typing import Any

from frn.training.presets.preset import Preset

FIELDS = {
    "about": "about",
    "prepare": "data.prepare",
    "method": "method",
    "backbone": "backbone",
    "last_pool": "last_pool",
    "episode": "episode",
    "schedule": "schedule",
    "augmentation": "augmentation",
    "transform": "transform",
    "aux": "aux",
    "beside": "aux_heads",
    "tuned_start": "pretraining.tune_head_at_start",
    "fixed": "fixed",
    "stage": "objective",
    "after": "pretraining.init_from",
    "batch": "pretraining.batch",
    "store_side": "data.max_side",
    "excluded": "data.exclude_classes",
    "val_every": "validation.every",
    "val_shot": "validation.shot",
    "val_episodes": "validation.episodes",
    "val_split": "validation.split",
    "balance": "data.balance",
    "progressive_resizing": "progressive_resizing",
    "test_shots": "test_shots",
    "published": "published",
}
"""Where a preset has what `frn presets --json` publishes, and what runs of version 0.1.0 have stored."""

DESCRIPTION = ("about", "published")
"""What a preset says of itself that decides nothing."""


LENGTHENING = ("schedule.epochs", "schedule.milestones", "validation.every")
"""What may change where a run goes on for more epochs than it was begun with."""

SECOND = ("dsn", "covariance", "bifrn")
"""Methods that are not what version 0.1.0 had under their names; a run of theirs is begun anew."""


def revision(preset: Preset) -> int:
    """Which description of a method a run follows: 1 is that of version 0.1.0.

    There DSN's auxiliary loss compared all locations, covariances were centred, `bifrn` was ridge regression both ways,
    and classical pre-training under FRN saw maps divided by the backbone's `map_scale`.
    """
    divided = preset.objective == "average-pretrain" and preset.method == "frn"
    return 2 if divided or not {preset.method, *preset.aux_heads}.isdisjoint(SECOND) else 1


def published_fields(preset: Preset) -> dict[str, Any]:
    """A preset by its published names."""
    fields = asdict(preset)
    return {name: reduce(lambda part, key: part[key], path.split("."), fields) for name, path in FIELDS.items()}


def deciding_fields(preset: Preset) -> dict[str, Any]:
    """What a resumed run must share with its beginning, as `config.toml` shows it."""
    fields = {name: value for name, value in asdict(preset).items() if name not in DESCRIPTION}
    return {**fields, "method_revision": revision(preset)}


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Where the settings of a stored run differ from those of today, in words.

    What one version does not know of decided nothing there, so only what both have is compared; but one that tells no
    revision is of the first.
    """
    old, new = _flat(_current(before)), _flat(json.loads(json.dumps(now)))
    return [
        f"{key} was {old[key]} and is {new[key]}" for key in sorted(old.keys() & new.keys()) if old[key] != new[key]
    ]


def lengthens(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a stored run has fewer epochs than it is to have now, and otherwise the same settings."""
    epochs = [_flat(run).get("schedule.epochs", 0) for run in (_current(before), now)]
    others = [change for change in changes(before, now) if not change.startswith(LENGTHENING)]
    return epochs[0] < epochs[1] and not others


def _current(run: Mapping[str, Any]) -> dict[str, Any]:
    """A stored run under today's names: version 0.1.0 had a preset's fields side by side, and a decoder's `stage`."""
    names = FIELDS if "prepare" in run else {"stage": "objective"}
    return {"method_revision": 1} | {names.get(name, name): value for name, value in run.items()}


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
