"""Frequent folders and projects: bookmarks and recently opened ones."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Places:
    """Bookmarks and recent paths, filled in by the app, which owns the settings."""

    recent: Callable[[], list[str]] = list
    """Recently opened paths, latest first."""
    bookmarks: list[str] = field(default_factory=list)
    changed: Callable[[], None] = lambda: None
    """Called when bookmarks change."""

    def known(self) -> list[str]:
        """Return bookmarks, then recently opened paths, without duplicates."""
        return list(dict.fromkeys([*self.bookmarks, *self.recent()]))

    def toggle(self, path: str) -> bool:
        """Add or remove the bookmark of a folder; return whether it is one now."""
        if path in self.bookmarks:
            self.bookmarks.remove(path)
        else:
            self.bookmarks.append(path)
        self.changed()
        return path in self.bookmarks
