"""Settings remembered between starts, in a file whose keys may be edited by hand."""

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from frn.errors import FrnError
from frn.system.files import read_json, write_atomically
from frn.system.processes.messages import convert

RECENT, PLACES = 9, 30


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the app; an unreadable file gives the defaults instead of an error."""

    theme: str = ""
    recent: list[str] = field(default_factory=list)  # recent projects and folders, last one first
    places: list[str] = field(default_factory=list)  # folders and files that were picked, last one first
    guided: bool = False  # whether the guide from the samples to the user's own photos was completed
    tile_width: int = 0  # width of a photo tile in cells; 0 chooses it from the available space
    trouble: str = ""  # problem with the file, which is then left unchanged

    @classmethod
    def read(cls) -> "Settings":
        if not settings_path().exists():
            return cls()
        try:
            return replace(convert(read_json(settings_path()), cls), trouble="")
        except ValueError as error:
            return cls(trouble=f"{settings_path()}: is ignored and left unchanged ({error})")

    def write(self) -> None:
        if not self.trouble:
            kept = {name: value for name, value in asdict(self).items() if name != "trouble"}
            with contextlib.suppress(FrnError):
                write_atomically(settings_path(), json.dumps(kept, indent=1), replace=True)

    def opened(self, path: str) -> "Settings":
        return replace(self, recent=[path, *(other for other in self.recent if other != path)][:RECENT])


def settings_path() -> Path:
    return state_folder() / "settings.json"


def state_folder() -> Path:
    """Return the folder of journals and settings: $FRN_STATE, or one in the user's state folder."""
    if override := os.environ.get("FRN_STATE"):
        return Path(override)
    from platformdirs import user_state_path

    return user_state_path("frn", appauthor=False)
