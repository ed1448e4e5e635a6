"""Layout of the items in a grid: plain arithmetic."""

from dataclasses import dataclass
from functools import lru_cache

from textual.geometry import Region, Size

MIN_TILE = 16
SMALL_TILE = 12
"""Smallest width of a tile in cells, unless a smaller one is requested; and for photos of all classes."""
SHAPE = 7 / 16
"""Height of a tile in rows per column if the grid scrolls: between a square and a 4:3 photo."""
USUAL = 3 / 8
"""Height of a 4:3 photo in rows per column."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Items in reading order, in lines with equal numbers of columns."""

    count: int
    columns: int
    pitch: Size
    """Distance in cells to the next item, across and down."""

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
    return max([scrolled, *in_view], key=_seen_rows)


def _in_columns(columns: int, count: int, room: Size, *, scrolls: bool = True) -> Grid:
    width = max((room.width + 1) // columns, 2)
    lines = -(-count // columns) or 1
    most = room.height - 1 if scrolls else min(room.height // lines - 1, width // 2)
    height = max(min(round((width - 1) * SHAPE), most) if scrolls else most, 1)
    return Grid(count, columns, Size(width, height + 1))


def _seen_rows(grid: Grid) -> float:
    """Return the height of a usual photo in a tile."""
    return min(grid.pitch.height - 1, (grid.pitch.width - 1) * USUAL)
