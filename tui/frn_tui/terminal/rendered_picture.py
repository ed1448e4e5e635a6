"""Images as the engine sends them: terminal cells ready to draw, or pixels."""

from dataclasses import dataclass

from frn_tui.terminal.modes import PIXELS, Mode
from frn_tui.terminal.sixel import Rows

CELL = 6  # bytes per cell: the colours of its upper and its lower half
Box = tuple[float, float, float, float]  # left, top, right and bottom, in fractions of the photo
WHOLE: Box = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Picture:
    """An image of columns * rows cells, row by row."""

    mode: Mode
    columns: int
    rows: int
    cells: bytes  # cells; empty for an image of pixels
    view: Box = WHOLE  # the visible part of the photo
    pixels: tuple[int, int] = (0, 0)  # width and height of the drawn image
    data: str = ""  # pixels in the terminal's format
    number: int = 0  # number of an image of pixels
    photo: tuple[int, int] = (0, 0)  # width and height of the photo in pixels
    crop: Box = WHOLE  # the network's crop, in fractions of the visible part

    @property
    def whole(self) -> Box:
        """The whole photo, in fractions of the visible part."""
        left, top, right, bottom = self.view
        wide, high = right - left, bottom - top
        return -left / wide, -top / high, (1 - left) / wide, (1 - top) / high

    @property
    def is_pixels(self) -> bool:
        return self.mode in PIXELS

    @property
    def sixels(self) -> Rows:
        cell = self.pixels[0] // self.columns, self.pixels[1] // self.rows
        return Rows(cell, tuple(tuple(row.split("\t")) for row in self.data.split("\n")), self.columns)
