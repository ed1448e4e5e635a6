"""Folders and projects that one comes back to: bookmarks, and what was opened before."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Places:
    """The app fills these in: it owns the settings."""

    recent: Callable[[], list[str]] = list
    """Paths that were opened before, the last one first."""
    bookmarks: list[str] = field(default_factory=list)
    changed: Callable[[], None] = lambda: None
    """Called when there are other bookmarks."""

    def known(self) -> list[str]:
        """Bookmarks first, then what was opened before; none twice."""
        return list(dict.fromkeys([*self.bookmarks, *self.recent()]))

    def toggle(self, path: str) -> bool:
        """Make a folder a bookmark, or none any more; whether it is one now."""
        if path in self.bookmarks:
            self.bookmarks.remove(path)
        else:
            self.bookmarks.append(path)
        self.changed()
        return path in self.bookmarks
