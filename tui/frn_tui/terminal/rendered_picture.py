"""Images as the engine sends them: terminal cells ready to draw, or pixels."""

from dataclasses import dataclass, replace
from math import floor

from frn_tui.terminal.modes import PIXELS, Mode
from frn_tui.terminal.sixel import Rows

CELL = 7
"""Bytes per cell: index of the character in its mode, foreground colour, background colour."""
Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in fractions of the photo."""
WHOLE: Box = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Picture:
    """An image of columns * rows cells, row by row."""

    mode: Mode
    columns: int
    rows: int
    cells: bytes
    """Cells; empty for an image of pixels."""
    photo: tuple[int, int] = (1, 1)
    """Width and height of the file's image."""
    view: Box = WHOLE
    """The visible part of the photo."""
    seen: Box = WHOLE
    """The network's crop."""
    pixels: tuple[int, int] = (0, 0)
    """Width and height of the drawn image."""
    data: str = ""
    """Pixels in the terminal's format."""
    number: int = 0
    """Number of an image of pixels."""

    def __post_init__(self) -> None:
        if self.is_pixels:
            return
        if self.columns < 1 or self.rows < 1 or len(self.cells) != CELL * self.columns * self.rows:
            raise ValueError(f"{len(self.cells)} bytes are not {self.columns} x {self.rows} cells")

    @property
    def is_pixels(self) -> bool:
        return self.mode in PIXELS

    @property
    def sixels(self) -> Rows:
        cell = self.pixels[0] // self.columns, self.pixels[1] // self.rows
        return Rows(cell, tuple(tuple(row.split("\t")) for row in self.data.split("\n")), self.columns)

    def resized(self, columns: int, rows: int) -> "Picture":
        """Return the image resized by nearest cells, for use until one of the right size arrives."""
        if (columns, rows) == (self.columns, self.rows):
            return self
        across = [CELL * ((2 * x + 1) * self.columns // (2 * columns)) for x in range(columns)]
        lines = []
        for y in range(rows):
            start = CELL * self.columns * ((2 * y + 1) * self.rows // (2 * rows))
            line = self.cells[start : start + CELL * self.columns]
            lines.append(b"".join([line[x : x + CELL] for x in across]))
        return Picture(self.mode, columns, rows, b"".join(lines), self.photo, self.view, self.seen)

    def fitted(self, columns: int, rows: int) -> "Picture":
        """Return the image scaled to fit, or cropped if it is of pixels, until one of the right size arrives."""
        if self.is_pixels:
            return replace(self, columns=min(columns, self.columns), rows=min(rows, self.rows))
        if self.columns <= columns and self.rows <= rows and (self.columns == columns or self.rows == rows):
            return self
        scale = min(columns / self.columns, rows / self.rows)
        return self.resized(max(int(self.columns * scale + 0.5), 1), max(int(self.rows * scale + 0.5), 1))

    @property
    def seen_cells(self) -> tuple[int, int, int, int]:
        """Return left, top, right and bottom of the model's input in cells; they may lie outside the view."""
        left, right = (self._place(share, 0) for share in self.seen[::2])
        top, bottom = (self._place(share, 1) for share in self.seen[1::2])
        return round(left), round(top), round(right), round(bottom)

    def _place(self, share: float, axis: int) -> float:
        """Return the position of a point of the photo in columns (axis 0) or rows (axis 1)."""
        first, last = self.view[axis], self.view[axis + 2]
        return (share - first) / (last - first) * (self.rows if axis else self.columns)

    def cell_at(self, x: float, y: float) -> tuple[int, int] | None:
        """Return the cell of a point in the model's input, in fractions of its sides; None if out of view."""
        left, top, right, bottom = self.seen
        column, row = floor(self._place(left + x * (right - left), 0)), floor(self._place(top + y * (bottom - top), 1))
        return (column, row) if 0 <= column < self.columns and 0 <= row < self.rows else None
