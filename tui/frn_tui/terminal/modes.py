"""Modes of drawing images: pixels if the terminal supports them, otherwise characters in two colours.

A terminal cell is about twice as high as it is wide. Characters divide it into parts: half blocks show 1 x 2 pixels in
their true colours; quadrants and sextants show 2 x 2 and 2 x 3 pixels in the best two colours; ASCII
shows one grey pixel. Pixels use the Kitty protocol or Sixel (`frn_tui.terminal.pixels`).
"""

from collections.abc import Mapping
from typing import Literal

Mode = Literal["kitty", "sixel", "half", "quad", "sextant", "ascii", "none"]
Palette = Literal["", "256", "greys"]
"""Number of colours: all, the 256 in a terminal's table, or black, white and two greys."""
PIXELS: tuple[Mode, ...] = ("kitty", "sixel")
"""Modes that some terminals support."""
MODES: tuple[Mode, ...] = ("half", "quad", "sextant", "ascii", "none")
"""Modes that every terminal supports if its font has the characters."""
CELLS: tuple[Mode, ...] = ("half", "quad", "sextant")
"""Modes that show the image by the colours of cells."""
COLOURED = (*PIXELS, *CELLS)

PARTS: dict[Mode, tuple[int, int]] = {
    "half": (1, 2),
    "quad": (2, 2),
    "sextant": (2, 3),
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


QUADRANTS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
CHARACTERS: dict[Mode, str] = {
    "half": " ▀",
    "quad": QUADRANTS,
    "sextant": _sextants(),
    "ascii": " .:-=+*#%@",
    "none": " ",
}
"""Characters by the sum of the parts in the first colour, or for ASCII by darkness.

The upper left part counts 1, its neighbour 2, and so on.
"""

FRAME = 0, 229, 255
"""RGB colour of the line around the model's input, rare in photos and absent from error maps."""
