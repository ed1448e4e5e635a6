"""What is remembered from one start to the next: the theme, how pictures are drawn, the last projects."""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from frn.errors import FrnError
from frn.files import write_atomically
from frn_tui.state import state_folder

RECENT = 9


@dataclass(frozen=True, slots=True)
class Settings:
    """Small, and never worth an error: what cannot be read is as on the first start."""

    theme: str = ""
    images: str = "auto"
    recent: list[str] = field(default_factory=list)
    """Paths of projects and folders, the last one first."""

    @classmethod
    def read(cls) -> "Settings":
        """The settings of the last time."""
        try:
            found = json.loads(_path().read_text(encoding="utf-8"))
            settings = cls(str(found["theme"]), str(found["images"]), [str(path) for path in found["recent"]])
        except (OSError, ValueError, KeyError, TypeError):
            return cls()
        return (
            settings
            if settings.images in ("auto", "half", "quad", "ascii", "none")
            else replace(settings, images="auto")
        )

    def write(self) -> None:
        """Keep them, if there is a place for them."""
        try:
            write_atomically(_path(), json.dumps(asdict(self)))
        except FrnError:
            return

    def opened(self, path: str) -> "Settings":
        """The same, with a project or folder opened just now."""
        return replace(self, recent=[path, *(other for other in self.recent if other != path)][:RECENT])


def _path() -> Path:
    return state_folder() / "settings.json"
