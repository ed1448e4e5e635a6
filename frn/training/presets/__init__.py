"""Training presets by name: those from the paper, by data set, and our own. This package does not need torch.

Recipes are TOML files whose tables are presets. A table names in `over` the table or known preset that it changes; its
settings are named as in a run's `config.toml`, as for `frn train --config`.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from frn.data.augmentation import Augmentation
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.training.presets.preset import Preset, Published, Schedule, TrainingData, overlay, read_settings

__all__ = ["PAPER", "PRESETS", "Preset", "Published", "Schedule", "find_preset"]

STANDARD = Preset(
    about="the paper's settings",
    data=TrainingData(prepare=None, max_side=256),
    episode=EpisodeShape(way=20, shot=5, queries=15),
    schedule=Schedule(epochs=800, milestones=(400,)),
    augmentation=Augmentation(size=84, crop="resized"),
    transform=EvaluationTransform(size=84),
)
"""Preset that the packaged recipes start from."""
NO_SETTINGS = ("over", "about", "published", "variants")


def _read_presets(file: str) -> dict[str, Preset]:
    """Return the presets of a packaged recipe, each followed by its variants."""
    tables = tomllib.loads((files("frn.training.presets") / file).read_text(encoding="utf-8"))
    kinds, presets = tables.pop("variants", {}), {}
    for name, table in tables.items():
        presets[name] = _build(tables, name, {"standard": STANDARD}, file)
        presets |= _variants(name, presets[name], table.get("variants", ()), kinds)
    return presets


def _build(
    tables: Mapping[str, Any], stage: str, presets: Mapping[str, Preset], where: str, above: tuple[str, ...] = ()
) -> Preset:
    """Return a stage with the changes of all stages `above` it that it starts from."""
    if above and stage in presets:
        return presets[stage]
    table = tables.get(stage)
    if not isinstance(table, dict) or stage in above:
        known = ", ".join(name for name in tables if isinstance(tables[name], dict))
        raise FrnError(f"{where}: unknown stage {stage!r} to start from; choose from {known}")
    base = _build(tables, str(table.get("over")), presets, where, (*above, stage))
    return _changed(base, table, f"{where}, [{stage}]")


def _variants(
    name: str, base: Preset, entries: Sequence[Mapping[str, Any]], kinds: Mapping[str, Any]
) -> Iterator[tuple[str, Preset]]:
    """Yield variants of a run: a different training shot, tested only at that shot; another method; or an ablation."""
    for entry in entries:
        kind, shot = kinds.get(entry.get("of", ""), {"about": "FRN"}), entry["shot"]
        table = {
            **kind,
            "about": f"{base.about.replace('FRN', kind['about'])}, trained at {shot} shot",
            "episode": {"way": entry["way"], "shot": shot},
            "test_shots": [shot],
            "published": entry.get("published"),
        }
        called = "-".join(filter(None, (name, entry.get("of"), f"{shot}shot")))
        yield called, _changed(base, table, called)


def _changed(preset: Preset, table: Mapping[str, Any], where: str) -> Preset:
    settings = {name: value for name, value in table.items() if name not in NO_SETTINGS}
    figures = table.get("published")
    return replace(
        overlay(preset, settings, where),
        about=table.get("about", preset.about),
        published=figures and msgspec.convert(figures, Published, str_keys=True),
    )


PAPER = _read_presets("paper.toml")
"""Presets of the paper's recipe; they train in float32, as its authors did, unless another precision is requested."""
PRESETS = {**_read_presets("general.toml"), **PAPER}


def find_preset(name: str) -> Preset:
    """Return a preset by name, or a stage of a recipe as `FILE.toml:STAGE`.

    Raises FrnError if the preset does not exist (the message suggests similar names), the recipe cannot be read, or a
    setting does not fit.
    """
    recipe, _, stage = name.rpartition(":")
    if recipe.endswith(".toml"):
        return _build(read_settings(Path(recipe)), stage, PRESETS, recipe)
    key = name.lower().replace("_", "-")
    if key in PRESETS:
        return PRESETS[key]
    near = difflib.get_close_matches(key, PRESETS, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(near)}?" if near else "`frn presets` lists them."
    raise FrnError(f"unknown preset {name!r}. {hint}")
