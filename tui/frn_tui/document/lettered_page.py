"""A page of the review whose photos have a letter each; a letter leads to the next likely class of its photo."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len, set_cell_size

from frn_tui.document.review_state import Reviewed
from frn_tui.terminal.text import display_name, fit

LETTERS = "abcdefghijklnopqrstvwyABCDEFGHIJKLMNOPQRSTUVWXZ"
"""Keys of the photos of a page; `m`, `u`, `x`, `z` and `Y` keep their meaning."""


@dataclass(frozen=True, slots=True)
class LetteredPage:
    """The photos of a page in the order of their letters; a page without photos is none.

    A label changes all answers, but what a letter does stays as its user saw it until the page is turned.
    """

    first: int = 0  # place of its first photo in the review
    classes: dict[str, list[int]] = field(default_factory=dict)  # class ids by path, the likeliest first

    def __len__(self) -> int:
        return len(self.classes)

    def __contains__(self, path: str) -> bool:
        return path in self.classes

    def with_photos(self, items: Sequence[Reviewed]) -> "LetteredPage":
        """Return the page with these photos; those that have a letter keep what it does."""
        classes = {}
        for item in items:
            ids = [score["id"] for score in item.answer.get("scores", [])]
            if ids:
                ids.sort(key=lambda class_id: class_id != item.label_id)
                classes[item.path] = self.classes.get(item.path) or ids
        return LetteredPage(self.first, classes)

    def letter(self, path: str) -> str:
        return LETTERS[list(self.classes).index(path)]

    def classes_of(self, item: Reviewed, names: Mapping[int, str]) -> list[int]:
        """Return the ids of the class that a photo is in, and of those that its letter leads to."""
        ids = [class_id for class_id in self.classes[item.path] if class_id in names]
        if item.label is None:
            return ids
        at = ids.index(item.label_id) + 1 if item.label_id in ids else 0
        return [item.label_id or 0, *ids[at:], *ids[: max(at - 1, 0)]]

    def choice(self, item: Reviewed, names: Mapping[int, str], room: int) -> str:
        """Return the class that a photo is in, and the one that its letter leads to, in so many cells."""
        shown = [display_name(names.get(of, item.said)) for of in self.classes_of(item, names)[:2]]
        widths = fit([cell_len(name) for name in shown], room - 1)
        return "→".join(set_cell_size(name, width) for name, width in zip(shown, widths, strict=True))
