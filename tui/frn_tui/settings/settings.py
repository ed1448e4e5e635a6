"""Settings remembered between starts, in a file whose keys may be edited by hand."""

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from frn.errors import FrnError
from frn.system.files import read_json, write_atomically
from frn_tui.terminal.modes import MODES

RECENT = 9
IMAGES = ("auto", *MODES)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the app; an unreadable file gives the defaults instead of an error."""

    theme: str = ""
    images: str = "auto"
    model: str = ""
    """Model to start with; empty for the shipped one."""
    recent: list[str] = field(default_factory=list)
    """Recent projects and folders, last one first."""
    guided: bool = False
    """Whether the guide from the samples to the user's own photos was completed."""
    query_share: int = 50
    """Width of the query in percent of the width shared with the photos."""
    tile_width: int = 0
    """Width of a photo tile in cells; 0 chooses it from the available space."""
    trouble: str = ""
    """Problem with the file, which is then left unchanged."""

    @classmethod
    def read(cls) -> "Settings":
        if not settings_path().exists():
            return cls()
        try:
            found = read_json(settings_path())
            if not isinstance(found, dict):
                raise TypeError("not a JSON object")
            taken = {name: found[name] for name in CHECKS if name in found}
            for name, value in taken.items():
                if not CHECKS[name](value):
                    raise ValueError(f"{name} cannot be {value!r}"[:80])
        except (ValueError, TypeError) as error:
            return cls(trouble=f"{settings_path()}: is ignored and left unchanged ({error})")
        return cls(**taken)

    def beside(self, opened: Sequence[str]) -> "Settings":
        """Return these settings with paths that other apps have opened meanwhile, then these, latest last."""
        kept = Settings.read()
        for path in opened:
            kept = kept.opened(path)
        return self if kept.trouble else replace(self, recent=kept.recent)

    def write(self) -> None:
        """Write the settings, ignoring errors."""
        if not self.trouble:
            with contextlib.suppress(FrnError):
                write_atomically(settings_path(), json.dumps({name: getattr(self, name) for name in CHECKS}, indent=1))

    def opened(self, path: str) -> "Settings":
        """Return the settings with a newly opened project or folder."""
        return replace(self, recent=[path, *(other for other in self.recent if other != path)][:RECENT])


CHECKS: dict[str, Callable[[Any], bool]] = {
    "theme": lambda value: isinstance(value, str),
    "images": lambda value: value in IMAGES,
    "model": lambda value: isinstance(value, str),
    "query_share": lambda value: isinstance(value, int) and 0 <= value <= 100,
    "tile_width": lambda value: isinstance(value, int) and 0 <= value <= 1000,
    "recent": lambda value: isinstance(value, list) and all(isinstance(path, str) for path in value),
    "guided": lambda value: isinstance(value, bool),
}


def settings_path() -> Path:
    """Return the path of the settings file."""
    return state_folder() / "settings.json"


def config_folder() -> Path:
    """Return the folder of files that a user writes: that of the settings with $FRN_STATE, otherwise ~/.config/frn."""
    if override := os.environ.get("FRN_STATE"):
        return Path(override)
    from platformdirs import user_config_path

    return user_config_path("frn", appauthor=False)


def state_folder() -> Path:
    """Return the folder of journals and settings: $FRN_STATE, or one in the user's state folder."""
    if override := os.environ.get("FRN_STATE"):
        return Path(override)
    from platformdirs import user_state_path

    return user_state_path("frn", appauthor=False)
