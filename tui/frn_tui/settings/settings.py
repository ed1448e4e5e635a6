"""What is remembered from one start to the next; the file may be edited by hand, for the keys."""

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
    """Small, and never worth an error: what cannot be read is as on the first start."""

    theme: str = ""
    images: str = "auto"
    model: str = ""
    """To start with; empty: the shipped one."""
    threshold: float | None = None
    """Threshold of classes that are started again; None: calibrated from the examples."""
    keys: dict[str, object] = field(default_factory=dict)
    """Keys by the ids of `frn_tui.settings.keys`, as they stand in the file."""
    recent: list[str] = field(default_factory=list)
    """Paths of projects and folders, the last one first."""
    bookmarks: list[str] = field(default_factory=list)
    """Folders that the file picker goes to."""
    guided: bool = False
    """Whether the steps from the samples to own photos were followed."""
    tta: str = "none"
    """Whether the model to start with looks at mirror images as well: "hflip"."""
    query_share: int = 50
    """Percent of the width that the query shares with the photos."""
    tile_width: int = 0
    """Cells that a photo of a class is wide; 0: by the room there is."""
    trouble: str = ""
    """What is wrong with the file; it is left as it is then."""

    @classmethod
    def read(cls) -> "Settings":
        if not settings_path().exists():
            return cls()
        try:
            found = read_json(settings_path())
            if not isinstance(found, dict):
                raise TypeError("it is no JSON object")
            taken = {name: found[name] for name in CHECKS if name in found}
            for name, value in taken.items():
                if not CHECKS[name](value):
                    raise ValueError(f"{name} cannot be {value!r}"[:80])
        except (ValueError, TypeError) as error:
            return cls(trouble=f"{settings_path()}: is left as it is and not used ({error})")
        return cls(**taken)

    def beside(self, start: "Settings", opened: Sequence[str]) -> "Settings":
        """The same, with the places that other apps have kept since the start; `opened` here, the last one first."""
        kept = Settings.read()
        if kept.trouble:
            return self
        for path in reversed(opened):
            kept = kept.opened(path)
        gone = set(start.bookmarks) - set(self.bookmarks)
        ours = [path for path in self.bookmarks if path not in start.bookmarks]
        theirs = [path for path in kept.bookmarks if path not in gone]
        return replace(self, recent=kept.recent, bookmarks=list(dict.fromkeys([*theirs, *ours])))

    def write(self) -> None:
        """Keep them, if there is a place for them."""
        if self.trouble:
            return
        try:
            write_atomically(settings_path(), json.dumps({name: getattr(self, name) for name in CHECKS}, indent=1))
        except FrnError:
            return

    def opened(self, path: str) -> "Settings":
        """The same, with a project or folder opened just now."""
        return replace(self, recent=[path, *(other for other in self.recent if other != path)][:RECENT])


def _are_paths(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(path, str) for path in value)


CHECKS: dict[str, Callable[[Any], bool]] = {
    "theme": lambda value: isinstance(value, str),
    "images": lambda value: value in IMAGES,
    "model": lambda value: isinstance(value, str),
    "tta": lambda value: value in ("none", "hflip"),
    "query_share": lambda value: isinstance(value, int) and 0 <= value <= 100,
    "tile_width": lambda value: isinstance(value, int) and 0 <= value <= 1000,
    "threshold": lambda value: value is None or (isinstance(value, int | float) and 0 <= value <= 1),
    "keys": lambda value: isinstance(value, dict),
    "recent": _are_paths,
    "bookmarks": _are_paths,
    "guided": lambda value: isinstance(value, bool),
}


def settings_path() -> Path:
    """Where they are kept."""
    return state_folder() / "settings.json"


def state_folder() -> Path:
    """Where journals and settings live: $FRN_STATE, or the user's folder for such things."""
    if override := os.environ.get("FRN_STATE"):
        return Path(override)
    from platformdirs import user_state_path

    return user_state_path("frn", appauthor=False)
