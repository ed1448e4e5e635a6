"""The photos of the chosen class: sorted, narrowed down, selected, moved, removed."""

from collections.abc import Mapping, Set
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding

from frn.inference.session import ClassEntry, Support
from frn_tui.client.protocol import ClassReport, RenderPreview
from frn_tui.client.rendering import render
from frn_tui.dialogs.dialogs import AskText
from frn_tui.panes.context import Context, Pane
from frn_tui.terminal.text import display_name, percent
from frn_tui.widgets.gallery.gallery import Gallery, GalleryItem


class PhotosPane(Pane):
    """Shows the photos of one class, and how well each fits it."""

    KEYS: ClassVar[tuple[Binding, ...]] = (
        Binding("f", "fit", "Sort by fit", show=False),
        Binding("g", "view", "Grid or list", show=False),
        Binding("left_curly_bracket", "tiles(-1)", "Smaller photos", show=False),
        Binding("right_curly_bracket", "tiles(1)", "Larger photos", show=False),
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context, id="photos-pane")
        self.gallery = Gallery(mode=context.mode, id="gallery")
        self.entry: ClassEntry | None = None
        """The class whose photos these are."""
        self.by_fit = False
        self.wanted_name = ""
        """Text to find in the names of the photos."""
        self._wanted: dict[str, RenderPreview] = {}
        """Pictures that the gallery lacks, by their paths."""

    def compose(self) -> ComposeResult:
        yield self.gallery

    def show(self, entry: ClassEntry | None) -> None:
        self.entry = entry
        if entry is None:
            self.gallery.set_items([])
            self.border_title = Text("Photos")
            return
        report = self.controller.reports.get(entry.id)
        missing = self.controller.missing
        names = self.controller.names
        items = [_item(support, report, self.controller.calibrated, missing, names) for support in entry.supports]
        if self.wanted_name:
            items = [item for item in items if self.wanted_name.casefold() in item.name.casefold()]
        if self.by_fit and report is not None:
            items.sort(key=lambda item: report["explained"].get(item.key or "", 2.0))
        self.gallery.set_items(items)
        order = " · worst fit first" if self.by_fit else ""
        narrowed = f" · only “{display_name(self.wanted_name, 16)}”" if self.wanted_name else ""
        away = sum(item.mark == "missing" for item in items)
        gone = f" · {away} missing" if away else ""
        self.border_title = Text(f"Photos · {display_name(entry.name, 30)} {len(items)}{gone}{narrowed}{order}")
        self.show_selection()

    @on(Gallery.SelectionChanged)
    def show_selection(self) -> None:
        count = len(self.gallery.selection)
        keys = "1-9 m move   d remove" if count else "space select   enter ask   f worst fit"
        self.border_subtitle = Text(f"{count} selected   {keys}" if count else keys)

    @on(Gallery.Want)
    def want_pictures(self, event: Gallery.Want) -> None:
        """Newest first: who scrolls fast wants what is on the screen now."""
        wanted = {request.path: request for request in event.requests}
        self._wanted = wanted | {path: request for path, request in self._wanted.items() if path not in wanted}
        if not any(worker.group == "thumbs" and worker.is_running for worker in self.workers):
            self._fetch()

    @work(group="thumbs", exit_on_error=False)
    async def _fetch(self) -> None:
        while self._wanted:
            path = next(iter(self._wanted))
            request = self._wanted.pop(path)
            if picture := await render(self.controller.engine, request):
                self.gallery.provide(request, picture)

    def assign(self, target: ClassEntry) -> None:
        """A class was named while photos had the focus: move the selected ones there."""
        keys = self._selected_keys()
        if keys and self.entry is not None and target.id != self.entry.id:
            self.context.edit(lambda session: session.move(keys, target.id), f"moved {len(keys)} to {target.name}")

    def delete(self) -> None:
        keys = self._selected_keys()
        if keys and self.entry is not None:
            self.context.edit(lambda session: session.remove(keys), f"removed {len(keys)} from {self.entry.name}")

    def _selected_keys(self) -> list[str]:
        """By key: a file that has changed and was added again is two examples of one path."""
        item, selection = self.gallery.cursor_item, set(self.gallery.selection)
        if selection and self.entry is not None:
            return [support.key for support in self.entry.supports if str(support.path) in selection]
        return [item.key] if item is not None and item.key is not None else []

    def filter(self) -> None:
        def named(text: str) -> None:
            self.wanted_name = text.strip()
            self.show(self.entry)

        self.context.ask(AskText("Photos whose name has", self.wanted_name), named)

    def action_fit(self) -> None:
        self.by_fit = not self.by_fit
        self.show(self.entry)

    def action_tiles(self, step: int) -> None:
        self.gallery.action_tiles(step)

    def action_view(self) -> None:
        self.gallery.view = "list" if self.gallery.view == "grid" else "grid"


def _item(
    support: Support, report: ClassReport | None, calibrated: float, missing: Set[str], names: Mapping[int, str]
) -> GalleryItem:
    """A photo with what the rest of its class says of it."""
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
