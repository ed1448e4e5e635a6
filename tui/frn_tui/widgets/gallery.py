"""Many images in a grid or a list."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from frn_tui.client.protocol import RenderPreview
from frn_tui.terminal.marks import WAITING
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.paths import close_up
from frn_tui.terminal.pixels import graphics_of
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.terminal.text import display_name
from frn_tui.widgets.cells import picture_line
from frn_tui.widgets.preview import PicturesWanted

MIN_TILE = 16
SMALL_TILE = 12  # smallest width of a tile in cells, unless a smaller one is requested; and for photos of all classes

NO_PICTURE = ("broken", "missing")  # marks of files that cannot be drawn
GLYPHS = {"broken": "⚠", "missing": "?", "near": "≈", "outlier": "!"}


@dataclass(frozen=True, slots=True)
class GalleryItem:
    path: str
    name: str
    key: str | None = None  # hash of its content, if known
    mark: str = ""  # a name in `GLYPHS`, or the sign itself
    note: str = ""  # meaning of the mark, such as why a file is broken
    subject: tuple[int, ...] = ()
    """Box of the subject that was found in it, which is shown instead of the whole: left, top, width and height."""

    @property
    def shown(self) -> str:
        return close_up(self.path, self.subject)[0]


@dataclass(frozen=True, slots=True)
class Grid:
    """Layout of the items: in reading order, in lines with equal numbers of columns."""

    count: int
    columns: int
    pitch: Size  # distance in cells to the next item, across and down

    @property
    def lines(self) -> int:
        return -(-self.count // self.columns)

    @property
    def height(self) -> int:
        return self.lines * self.pitch.height

    def region(self, index: int) -> Region:
        line, column = divmod(index, self.columns)
        return Region(column * self.pitch.width, line * self.pitch.height, *self.pitch)

    def at(self, x: int, y: int) -> int | None:
        column, line = x // self.pitch.width, y // self.pitch.height
        index = line * self.columns + column
        return index if column < self.columns and 0 <= index < self.count else None

    def within(self, top: int, height: int) -> range:
        """Return the items that are at least partly between two lines of cells."""
        first = top // self.pitch.height * self.columns
        last = -(-(top + height) // self.pitch.height) * self.columns
        return range(first, min(last, self.count))

    def below(self, index: int, lines: int) -> int:
        """Return the item this many lines further down (up if negative) in the same column.

        Beyond the ends, return the nearest item: in the same column at the top, the last one at the bottom.
        """
        target = index + lines * self.columns
        if target < 0:
            return index % self.columns
        if target < self.count:
            return target
        in_last_line = index // self.columns == self.lines - 1
        return index if in_last_line else self.count - 1


@lru_cache(16)
def tiled(count: int, room: Size, wanted: int = 0, least: int = MIN_TILE) -> Grid:
    """Lay out tiles over the full width, with a blank column between them and a line for the name below each.

    Args:
        count: number of tiles.
        room: size of the visible area.
        wanted: approximate width of a tile; 0 makes tiles as large as possible if all fit, otherwise `least` wide.
        least: smallest width of a tile that is chosen here.
    """
    if wanted:
        return _in_columns(max(round((room.width + 1) / (wanted + 1)), 1), count, room)
    most = max((room.width + 1) // (least + 1), 1)
    scrolled = _in_columns(most, count, room)
    in_view = [_in_columns(columns, count, room, scrolls=False) for columns in range(1, most + 1)]
    # Height of a 4:3 photo in rows per column
    return max([scrolled, *in_view], key=lambda grid: min(grid.pitch.height - 1, (grid.pitch.width - 1) * (3 / 8)))


def _in_columns(columns: int, count: int, room: Size, *, scrolls: bool = True) -> Grid:
    width = max((room.width + 1) // columns, 2)
    lines = -(-count // columns) or 1
    most = room.height - 1 if scrolls else min(room.height // lines - 1, width // 2)
    # Height of a tile in rows per column if the grid scrolls: between a square and a 4:3 photo
    height = max(min(round((width - 1) * (7 / 16)), most) if scrolls else most, 1)
    return Grid(count, columns, Size(width, height + 1))


class Gallery(ScrollView, can_focus=True):
    """A virtual grid: only visible items are drawn, and only their images are requested.

    The cursor and the selection belong to paths, so they survive sorting, filtering and reloading.
    """

    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1)", "Left", show=False),
        Binding("right,l", "move(1)", "Right", show=False),
        Binding("up,k", "move_line(-1)", "Up", show=False),
        Binding("down,j", "move_line(1)", "Down", show=False),
        Binding("pageup", "move_page(-1)", "Page up", show=False),
        Binding("pagedown", "move_page(1)", "Page down", show=False),
        Binding("home", "go(0)", "First", show=False),
        Binding("end", "go(-1)", "Last", show=False),
        Binding("space", "mark", "Select", show=False),
        Binding("v", "range", "Select a range", show=False),
        Binding("ctrl+a", "all", "Select all", show=False),
        Binding("enter", "open", "Open", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"gallery--{part}" for part in ("cursor", "selected", "mark", "empty", "waiting")
    }

    view: reactive[Literal["grid", "list"]] = reactive("grid", init=False)
    mode: reactive[Mode] = reactive("half", init=False)
    cursor: reactive[int] = reactive(0, init=False)  # index of the item under the cursor
    tile_width: reactive[int] = reactive(0, init=False)
    """Approximate width of a tile in cells; 0 chooses it from the available space."""

    @dataclass
    class Opened(Message):
        """An item was chosen with Enter or a double click."""

        item: GalleryItem

    @dataclass
    class Clicked(Message):
        """An item was clicked while clicks mean more than moving the cursor (`clicks`)."""

        item: GalleryItem

    class Changed(Message):
        """The cursor or the selection has changed."""

    def __init__(self, *, mode: Mode = "half", id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.set_reactive(Gallery.mode, mode)
        self._items: tuple[GalleryItem, ...] = ()
        self._places: dict[str, int] = {}
        self._shown: dict[str, int] = {}  # places of the items by the name of what is shown of them
        self._selected: set[str] = set()
        self._anchor = ""
        self.selects = False  # whether moving the cursor selects from the anchor on
        self._selected_before: set[str] = set()
        self.clicks = False  # whether a click is reported, instead of opening an item if it is a double click
        self.least = MIN_TILE  # smallest width of a tile, unless `tile_width` is smaller
        self.empty_text = ""  # shown in place of items
        # Maximum number of images in memory
        self._pictures: LRUCache[str, tuple[RenderPreview, Picture]] = LRUCache(512)
        self._asked: list[RenderPreview] = []  # requests without a picture yet; those that failed are not repeated
        self.asking = False

    @property
    def cursor_item(self) -> GalleryItem | None:
        return self._items[self.cursor] if self._items else None

    @property
    def items(self) -> tuple[GalleryItem, ...]:
        return self._items

    @property
    def paths(self) -> list[str]:
        return [item.path for item in self._items]

    @property
    def selection(self) -> list[str]:
        return [item.path for item in self._items if item.path in self._selected]

    def set_items(self, items: Iterable[GalleryItem]) -> None:
        """Replace the items; the cursor and the selection keep their paths."""
        before, selection, place = self.cursor_item, self.selection, self.cursor
        keys = {item.shown: item.key for item in self._items}
        self._items = tuple(items)
        self._shown = {item.shown: index for index, item in enumerate(self._items)}
        self._places = {item.path: index for index, item in enumerate(self._items)}
        for item in self._items:
            known = keys.get(item.shown)
            if known is not None and item.key is not None and known != item.key:
                self._pictures.discard(item.shown)
        self._selected &= self._places.keys()
        last = max(len(self._items) - 1, 0)
        # otherwise keep it: two items may share a path
        if before is None or self.paths[place : place + 1] != [before.path]:
            self.set_reactive(Gallery.cursor, self._places.get(before.path, min(place, last)) if before else 0)
        self._lay_out()
        if self.cursor != place:  # otherwise keep the scroll position
            self._show_cursor()
        if selection != self.selection:
            self.post_message(self.Changed())

    def provide(self, request: RenderPreview, picture: Picture | None) -> None:
        if picture is not None:
            graphics_of(self.app).send(picture)
            self._asked = [other for other in self._asked if other != request]
            self._pictures.discard(request.path)  # Textual's cache keeps the first value of a key
            self._pictures[request.path] = request, picture
            if (request.columns, request.rows) != self.tile:  # the tiles have changed their size since
                self._want()
            self._refresh_item(self._shown.get(request.path))

    def select(self, paths: Iterable[str]) -> None:
        self.selects = False
        selected = self._places.keys() & set(paths)
        if selected != self._selected:
            self._selected = set(selected)
            self.refresh()
            self.post_message(self.Changed())

    @property
    def _is_grid(self) -> bool:
        return self.view == "grid" and self.mode != "none"

    @property
    def _grid(self) -> Grid:
        width = self.scrollable_content_region.width
        if not self._is_grid:
            return Grid(len(self._items), 1, Size(max(width, 1), 1))
        return tiled(len(self._items), Size(width, self.size.height), self.tile_width, self.least)

    @property
    def capacity(self) -> int:
        """Return how many items can be completely in view, at least a line of them."""
        return max(self.size.height // self._grid.pitch.height, 1) * self._grid.columns

    @property
    def in_view(self) -> range:
        """Return the places of the items that are completely in view."""
        first = -(-self.scroll_offset.y // self._grid.pitch.height) * self._grid.columns
        return range(first, min(first + self.capacity, len(self._items)))

    def show_from(self, place: int) -> None:
        """Move the cursor to a place, and its line to the top."""
        self.cursor = place
        self.scroll_to(y=self._grid.region(place).y, animate=False, force=True, immediate=True)

    @property
    def tile(self) -> Size:
        return self._grid.pitch - Size(1, 1)

    def _lay_out(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, self._grid.height)
        self.refresh()
        self._want()

    def _refresh_item(self, index: int | None) -> None:
        if index is not None:
            region = self._grid.region(index)
            self.refresh_lines(region.y, region.height)

    def _show_cursor(self) -> None:
        if self._items and self.is_mounted:
            region = self._grid.region(self.cursor)
            place = Region(0, region.y, 1, region.height)
            self.scroll_to_region(place, animate=False, force=True, immediate=True)

    def on_resize(self, _: events.Resize) -> None:
        self.watch_view()

    def validate_cursor(self, cursor: int) -> int:
        return max(min(cursor, len(self._items) - 1), 0)

    def watch_cursor(self, before: int, now: int) -> None:
        self._refresh_item(before)
        self._refresh_item(now)
        self._show_cursor()
        if self.selects:
            self._select_range()
        self.post_message(self.Changed())

    def watch_view(self) -> None:
        self._lay_out()
        self._show_cursor()

    watch_tile_width = watch_mode = watch_view

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._want()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor; with ctrl, select the item as well, and open it on a double click."""
        offset = event.get_content_offset(self)
        index = None if offset is None else self._grid.at(*(offset + self.scroll_offset))
        if index is None:
            return
        self.cursor = index
        if event.ctrl:
            self._flip(self._items[index].path)
        elif self.clicks:
            self.post_message(self.Clicked(self._items[index]))
        elif event.chain == 2:
            self.action_open()

    def _want(self) -> None:
        if not self.asking:
            self.asking = True
            self.call_after_refresh(self._ask)

    def _ask(self) -> None:
        """Request missing images once for several changes in a row, and never twice."""
        self.asking = False
        if not self._is_grid or not self.size:
            return
        visible = self._grid.within(self.scroll_offset.y, self.size.height)
        items = [self._items[index] for index in visible]
        about = graphics_of(self.app).wanted(self.mode)
        rendered = [close_up(item.path, item.subject) for item in items if item.mark not in NO_PICTURE]
        requests = [
            RenderPreview(path, *self.tile, self.mode, framed=bool(subject), subject=subject, **about)
            for path, subject in rendered
        ]
        missing = [request for request in requests if self._pictures.get(request.path, (None,))[0] != request]
        if any(request not in self._asked for request in missing):
            self._asked = missing
            self.app.post_message(PicturesWanted(self, missing, self.provide))

    def render_line(self, y: int) -> Strip:
        width, grid, base = self.scrollable_content_region.width, self._grid, self.visual_style.rich_style
        if not self._items:
            text = Segment(display_name(self.empty_text, width) if y == 0 else "", self._style("empty"))
            return Strip([text]).adjust_cell_length(width, base)
        line, row = divmod(y + self.scroll_offset.y, grid.pitch.height)
        first = line * grid.columns
        rendered: list[Segment] = []
        for index in range(first, min(first + grid.columns, grid.count)):
            rendered += self._part(index, row, width)
            if self._is_grid:
                rendered.append(Segment(" ", base))
        return Strip(rendered).adjust_cell_length(width, base)

    def _part(self, index: int, row: int, width: int) -> list[Segment]:
        tile = self.tile
        if row == tile.height or not self._is_grid:
            return self._words(index, tile.width if self._is_grid else width)
        return self._image(self._items[index], row)

    def _image(self, item: GalleryItem, row: int) -> list[Segment]:
        """Return a row of an item's image, or of its place until the image arrives."""
        width, height = self.tile
        _, picture = self._pictures.get(item.shown, (None, None))
        if picture is None:
            word = item.mark if item.mark in NO_PICTURE else "..."
            is_middle = row == max(height // 2 - 1, 0)
            text = word.center(width, WAITING)[:width] if is_middle else WAITING * width
            return [Segment(text, self._style("waiting"))]
        return picture_line(picture, row, self.tile, self.visual_style.rich_style)

    def _words(self, index: int, room: int) -> list[Segment]:
        """Return the glyphs, the name and in a list the note of an item, over the full width."""
        item, note = self._items[index], ""
        is_selected = item.path in self._selected
        if item.note and not self._is_grid:  # cut the name, not the note
            note = f"  {display_name(item.note, max(room - 14, room // 2))}"
        lead = f"{'›' if index == self.cursor else ' '}{'✓' if is_selected else ''}"
        mark = GLYPHS.get(item.mark, item.mark)
        remaining = max(room - cell_len(note) - len(lead) - len(mark), 0)
        name = display_name(item.name, remaining)
        name += " " * (remaining - cell_len(name))
        if index == self.cursor:
            return [Segment(lead + mark + name + note, self._style("cursor"))]
        plain = self._style("selected") if is_selected else self.visual_style.rich_style
        warning, said = self._style("mark"), self._style("mark" if mark else "empty")
        return [Segment(lead, plain), Segment(mark, warning), Segment(name, plain), Segment(note, said)]

    def _style(self, component: str) -> Style:
        return self.get_visual_style(f"gallery--{component}").rich_style

    def action_move(self, step: int) -> None:
        self.cursor += step

    def action_move_line(self, step: int) -> None:
        target = self._grid.below(self.cursor, step)
        if target // self._grid.columns != self.cursor // self._grid.columns:
            self.cursor = target

    def action_move_page(self, step: int) -> None:
        lines = max(self.size.height // self._grid.pitch.height, 1)
        self.cursor = self._grid.below(self.cursor, step * lines)

    def action_go(self, place: int) -> None:
        self.cursor = place % max(len(self._items), 1)

    def action_mark(self) -> None:
        if self._items:
            self._flip(self._items[self.cursor].path)
            self.cursor += 1

    def action_range(self) -> None:
        self.selects = not self.selects and bool(self._items)
        if self.selects:
            self._anchor, self._selected_before = self._items[self.cursor].path, set(self._selected)
            self._select_range()

    def _select_range(self) -> None:
        low, high = sorted((self._places.get(self._anchor, self.cursor), self.cursor))
        selected = self._selected_before.union(item.path for item in self._items[low : high + 1])
        if selected != self._selected:
            self._selected = selected
            self.refresh()
            self.post_message(self.Changed())

    def action_all(self) -> None:
        everything = self._places.keys()
        self.select(() if self._selected == everything else everything)

    def action_tiles(self, step: int) -> None:
        width = self.scrollable_content_region.width
        columns = max(self._grid.columns - step * max(self._grid.columns // 4, 1), 1)
        self.tile_width = max((width + 1) // columns - 1, 6)  # smallest width of a tile in cells

    def action_open(self) -> None:
        if self.cursor_item is not None:
            self.post_message(self.Opened(self.cursor_item))

    def _flip(self, path: str) -> None:
        self.select(self._selected ^ {path})
