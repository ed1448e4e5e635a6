"""Training runs by name: those of the paper, by data set, and our own. Free of torch."""

import difflib

from frn.errors import FrnError
from frn.training.presets.fine_grained import FINE_GRAINED
from frn.training.presets.general import GENERAL, demo
from frn.training.presets.imagenet import IMAGENET
from frn.training.presets.photo import PHOTO
from frn.training.presets.preset import WITH_AUXILIARY_LOSS, Preset, Published, Schedule
from frn.training.presets.small import SMALL

__all__ = ["PAPER", "PRESETS", "WITH_AUXILIARY_LOSS", "Preset", "Published", "Schedule", "demo", "find_preset"]

PAPER: dict[str, Preset] = {**SMALL, **FINE_GRAINED, **IMAGENET}
"""By the paper's recipe: in float32, as its authors train, unless another precision is asked for."""
PRESETS: dict[str, Preset] = {**GENERAL, **PHOTO, **PAPER}


def find_preset(name: str) -> Preset:
    """Return a preset by name; an FrnError names the nearest ones."""
    key = name.lower().replace("_", "-")
    if key in PRESETS:
        return PRESETS[key]
    near = difflib.get_close_matches(key, PRESETS, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(near)}?" if near else "`frn presets` lists them."
    raise FrnError(f"unknown preset {name!r}. {hint}")
