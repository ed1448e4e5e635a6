"""A recipe: a TOML file whose tables are stages of one model's training, each a preset. Free of torch.

A stage says `over` which other stage, or which preset, it changes; its settings have the names of a run's
`config.toml`, as in `frn train --config`.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from frn.errors import FrnError
from frn.training.presets.overlay import overlay, read_settings
from frn.training.presets.preset import Preset


def read_stage(path: Path, stage: str, presets: Mapping[str, Preset]) -> Preset:
    """Return a stage of a recipe as a preset.

    Raises:
        FrnError: if the file cannot be read, has no such stage, or a setting does not fit.
    """
    tables = read_settings(path)
    chain: list[str] = []
    while (name := str(tables[chain[-1]].get("over")) if chain else stage) not in presets or not chain:
        if not isinstance(tables.get(name), dict) or name in chain:
            known = ", ".join(name for name in tables if isinstance(tables[name], dict))
            raise FrnError(f"{path}: there is no stage {name!r} to start from; there are {known}")
        chain.append(name)
    preset = presets[name]
    for name in reversed(chain):
        about = tables[name].get("about", preset.about)
        settings = {key: value for key, value in tables[name].items() if key not in ("over", "about")}
        preset = replace(overlay(preset, settings, f"{path}, [{name}]"), about=about)
    return preset
