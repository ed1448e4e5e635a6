"""The photos of the chosen class: sorted, filtered, selected, moved, removed."""

from collections.abc import Container, Mapping, Set
from dataclasses import replace
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding

from frn.inference.session import ClassEntry, Support
from frn_tui.client.protocol import ClassReport
from frn_tui.dialogs.dialogs import AskText
from frn_tui.panes.context import Context, Pane
from frn_tui.terminal.text import class_keys, display_name, percent
from frn_tui.widgets.gallery.gallery import Gallery, GalleryItem

TITLES = {
    "outlier": "that do not fit, of all classes",
    "near": "near copies, of all classes",
    "differing": "that models name differently",
}


class PhotosPane(Pane):
    """Photos of one class, and how well each fits it."""

    KEYS: ClassVar[tuple[Binding, ...]] = (
        Binding("f", "fit", "Sort by fit", show=False),
        Binding("exclamation_mark", "everywhere('outlier')", "Misfits of all classes", show=False),
        Binding("tilde", "everywhere('near')", "Near copies of all classes", show=False),
        Binding("g", "view", "Grid or list", show=False),
        Binding("left_curly_bracket", "tiles(-1)", "Smaller photos", show=False),
        Binding("right_curly_bracket", "tiles(1)", "Larger photos", show=False),
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context, id="photos-pane")
        self.gallery = Gallery(mode=context.mode, id="gallery")
        self.entry: ClassEntry | None = None
        """Class whose photos are shown."""
        self.by_fit = False
        self.everywhere = ""
        """Mark of the photos that are shown of all classes, or "differing"; empty: those of one class."""
        self.differing: Container[str] = ()
        """Paths of photos that models name differently."""
        self._keys: dict[str, list[str]] = {}
        """Keys of the photos that are shown, by path: a file that has changed and was added again has two."""
        self.wanted_name = ""
        """Filter text for names of photos."""

    def compose(self) -> ComposeResult:
        yield self.gallery

    def show(self, entry: ClassEntry | None) -> None:
        self.entry = entry
        classes = self.controller.session.state.classes if self.everywhere else [entry] if entry is not None else []
        items = [item for each in classes for item in self._items(each)]
        if self.everywhere:
            items = sorted(filter(self._is_shown, items), key=self._misfit)
        elif self.by_fit:
            items.sort(key=lambda item: self._report_of(item)[0])
        if self.wanted_name:
            items = [item for item in items if self.wanted_name.casefold() in item.name.casefold()]
        self._keys = {}
        for item in items:
            self._keys.setdefault(item.path, []).append(item.key or "")
        whose = TITLES.get(self.everywhere, display_name(entry.name, 30) if entry is not None else "")
        narrowed = f" · only “{display_name(self.wanted_name, 16)}”" if self.wanted_name else ""
        self.gallery.empty_text = f"no photo: {whose}{narrowed}   esc: back" if self.everywhere or narrowed else ""
        self.gallery.set_items(items)
        order = " · worst fit first" if self.by_fit and not self.everywhere else ""
        away = sum(item.mark == "missing" for item in items)
        gone = f" · {away} missing" if away else ""
        self.border_title = Text(f"Photos · {whose} {len(items)}{gone}{narrowed}{order}" if whose else "Photos")
        self.show_selection()

    def _is_shown(self, item: GalleryItem) -> bool:
        return item.path in self.differing if self.everywhere == "differing" else item.mark == self.everywhere

    def _items(self, entry: ClassEntry) -> list[GalleryItem]:
        report = self.controller.reports.get(entry.id)
        names, calibrated, missing = self.controller.names, self.controller.calibrated, self.controller.missing
        items = [_item(support, report, calibrated, missing, names) for support in entry.supports]
        return [replace(item, name=f"{entry.name}/{item.name}") for item in items] if self.everywhere else items

    def _report_of(self, item: GalleryItem) -> tuple[float, int]:
        """What the others of its class explain of a photo, and how many classes explain it better."""
        for report in self.controller.reports.values():
            if item.key in report["explained"]:
                return report["explained"][item.key], report["rank"].get(item.key, 0)
        return 2.0, 0

    def _misfit(self, item: GalleryItem) -> tuple[int, float]:
        """The worst first: the more classes explain a photo better than its own, the likelier it is of another."""
        share, rank = self._report_of(item)
        return -rank, share

    @on(Gallery.SelectionChanged)
    def show_selection(self) -> None:
        count = len(self.gallery.selection)
        keys = "space select  enter ask  f worst fit  ! misfits"
        if count:
            room = self.size.width - 32
            keys = f"{count} selected   to {class_keys(self.controller.names.values(), room)}  m by name  d remove"
        self.border_subtitle = Text(keys)

    def assign(self, target: ClassEntry) -> None:
        """Move the selected photos to the class that was named."""
        keys = self._selected_keys()
        if keys and (self.everywhere or (self.entry is not None and target.id != self.entry.id)):
            self.context.edit(lambda session: session.move(keys, target.id), f"moved {len(keys)} to {target.name}")

    def delete(self) -> None:
        keys = self._selected_keys()
        if keys and self.entry is not None:
            whose = "their classes" if self.everywhere else self.entry.name
            self.context.edit(lambda session: session.remove(keys), f"removed {len(keys)} from {whose}")

    def _selected_keys(self) -> list[str]:
        item, selection = self.gallery.cursor_item, self.gallery.selection
        if selection:
            return [key for path in selection for key in self._keys.get(path, [])]
        return [item.key] if item is not None and item.key is not None else []

    def filter(self) -> None:
        def named(text: str) -> None:
            self.wanted_name = text.strip()
            self.show(self.entry)

        self.context.ask(AskText("Photos whose name has", self.wanted_name), named)

    def action_fit(self) -> None:
        self.by_fit = not self.by_fit
        self.show(self.entry)

    def action_everywhere(self, mark: str) -> None:
        """Photos with a mark, of all classes; the same key again: those of the chosen class."""
        self.everywhere = "" if self.everywhere == mark else mark
        self.show(self.entry)
        self.gallery.cursor = 0
        self.gallery.focus()

    def action_tiles(self, step: int) -> None:
        self.gallery.action_tiles(step)

    def action_view(self) -> None:
        self.gallery.view = "list" if self.gallery.view == "grid" else "grid"


def _item(
    support: Support, report: ClassReport | None, calibrated: float, missing: Set[str], names: Mapping[int, str]
) -> GalleryItem:
    """Return a photo with how well the rest of its class explains it."""
    path, key = str(support.path), support.key
    name = path.rpartition("/")[2]
    if path in missing:
        return GalleryItem(path, name, key, "missing", "is not there any more; R finds it by its content")
    if report is None:
        return GalleryItem(path, name, key)
    if key in report["near"]:
        return GalleryItem(path, name, key, "near", "looks the same as another photo")
    share, rank = report["explained"].get(key), report["rank"].get(key, 0)
    if share is None:
        return GalleryItem(path, name, key)
    rival = display_name(names.get(report["rival"].get(key, 0), "another class"), 24)
    more = f", as do {rank - 1} more" if rank > 1 else ""
    odd = f"; {rival} explains it better{more}" if rank else ""
    mark = "outlier" if rank > 0 or share < calibrated else ""
    return GalleryItem(path, name, key, mark, f"{percent(share)} explained by the others{odd}")  # type: ignore[arg-type]
