"""Training presets by name: those from the paper, by data set, and our own. This module does not need torch."""

import difflib
from pathlib import Path

from frn.errors import FrnError
from frn.models.zoo import assets_folder
from frn.training.presets.overlay import read_settings
from frn.training.presets.preset import WITH_AUXILIARY_LOSS, Preset, Published, Schedule
from frn.training.presets.recipes import read_presets, read_stage

__all__ = ["PAPER", "PRESETS", "WITH_AUXILIARY_LOSS", "Preset", "Published", "Schedule", "find_preset"]

PAPER = read_presets("paper.toml")
"""Presets of the paper's recipe; they train in float32, as its authors did, unless another precision is requested."""
PRESETS = {**read_presets("general.toml"), **PAPER}


def find_preset(name: str) -> Preset:
    """Return a preset by name, a stage of a shipped model's recipe, or one of another recipe as `FILE.toml:STAGE`.

    Raises FrnError if the preset does not exist; the message suggests similar names.
    """
    recipe, _, stage = name.rpartition(":")
    if recipe.endswith(".toml"):
        return read_stage(Path(recipe), stage, PRESETS)
    key = name.lower().replace("_", "-")
    if key in PRESETS:
        return PRESETS[key]
    for path in (assets_folder() / "models").glob("*.toml"):
        if key in read_settings(path):
            return read_stage(path, key, PRESETS)
    near = difflib.get_close_matches(key, PRESETS, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(near)}?" if near else "`frn presets` lists them."
    raise FrnError(f"unknown preset {name!r}. {hint}")
