"""Modes of drawing images: pixels if the terminal supports them, otherwise characters in two colours.

A terminal cell is about twice as high as it is wide. Characters divide it into parts: half blocks show 1 x 2 pixels in
their true colours; quadrants, sextants and octants show 2 x 2, 2 x 3 and 2 x 4 pixels in the best two colours; ASCII
shows one grey pixel. Pixels use the Kitty protocol or Sixel (`frn_tui.terminal.pixels`).
"""

from collections.abc import Mapping
from typing import Literal

Mode = Literal["kitty", "sixel", "half", "quad", "sextant", "octant", "ascii", "none"]
Palette = Literal["", "256", "greys"]
"""Number of colours: all, the 256 in a terminal's table, or black, white and two greys."""
PIXELS: tuple[Mode, ...] = ("kitty", "sixel")
"""Modes that some terminals support."""
MODES: tuple[Mode, ...] = ("half", "quad", "sextant", "octant", "ascii", "none")
"""Modes that every terminal supports if its font has the characters."""
CELLS: tuple[Mode, ...] = ("half", "quad", "sextant", "octant")
"""Modes that show the image by the colours of cells."""
COLOURED = (*PIXELS, *CELLS)

PARTS: dict[Mode, tuple[int, int]] = {
    "half": (1, 2),
    "quad": (2, 2),
    "sextant": (2, 3),
    "octant": (2, 4),
    "ascii": (1, 1),
    "none": (0, 0),
}
"""Pixels per cell, across and down, of modes that use characters."""


def default_mode(environ: Mapping[str, str], color_system: str | None) -> Mode:
    """Return the drawing mode for this terminal according to its environment, without queries."""
    return "half" if color_system and environ.get("TERM") not in ("dumb", "unknown") else "ascii"


def palette_of(color_system: str | None) -> Palette:
    """Return the palette to which images are dithered; with very few colours, greys show more."""
    if color_system in ("standard", "windows"):
        return "greys"
    return "256" if color_system == "256" else ""


def _sextants() -> str:
    """Return U+1FB00 onwards in the order of their parts, with other blocks for empty, left, right and full."""
    known = {0: " ", 21: "▌", 42: "▐", 63: "█"}
    fresh = iter(range(0x1FB00, 0x1FB3C))
    return "".join(known[parts] if parts in known else chr(next(fresh)) for parts in range(64))


def _octants() -> str:
    """Return U+1CD00 onwards in the order of their parts, with existing blocks in their places."""
    quarters = (0, 0b0101, 0b1010, 0b1111)  # of an upper or lower half: none, left, right, both
    known = {quarters[i & 3] | quarters[i >> 2] << 4: QUADRANTS[i] for i in range(16)}
    known |= {0b11000000: "▂", 0b11111100: "▆", 0b00000011: "\U0001fb82", 0b00111111: "\U0001fb85"}
    known |= {1: "\U0001cea8", 2: "\U0001ceab", 64: "\U0001cea3", 128: "\U0001cea0"}
    known |= {0b00010100: "\U0001fbe6", 0b00101000: "\U0001fbe7"}
    fresh = iter(range(0x1CD00, 0x1CDE6))
    return "".join(known[parts] if parts in known else chr(next(fresh)) for parts in range(256))


QUADRANTS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
CHARACTERS: dict[Mode, str] = {
    "half": " ▀",
    "quad": QUADRANTS,
    "sextant": _sextants(),
    "octant": _octants(),
    "ascii": " .:-=+*#%@",
    "none": " ",
}
"""Characters by the sum of the parts in the first colour, or for ASCII by darkness.

The upper left part counts 1, its neighbour 2, and so on.
"""

FRAME = 0, 229, 255
"""RGB colour of the line around the model's input, rare in photos and absent from error maps."""
