"""How pictures are drawn: with pixels where the terminal can, else with characters of two colours.

A cell of a terminal is about twice as high as wide. Characters cut it into parts: half blocks show 1 x 2 pixels in
their true colours; quadrants, sextants and octants 2 x 2, 2 x 3 and 2 x 4 pixels in the best two colours; ASCII one
grey pixel. Pixels come by Kitty's protocol or as Sixel (`frn_tui.terminal.pixels`).
"""

from collections.abc import Mapping
from typing import Literal

Mode = Literal["kitty", "sixel", "half", "quad", "sextant", "octant", "ascii", "none"]
Palette = Literal["", "256", "greys"]
"""All colours, the 256 of a terminal's table, or black, white and two greys between."""
PIXELS: tuple[Mode, ...] = ("kitty", "sixel")
"""Those that some terminals can."""
MODES: tuple[Mode, ...] = ("half", "quad", "sextant", "octant", "ascii", "none")
"""Those that every terminal can, as far as its font has the characters."""
CELLS: tuple[Mode, ...] = ("half", "quad", "sextant", "octant")
"""Those whose cells show the picture by their colours."""
COLOURED = (*PIXELS, *CELLS)

PARTS: dict[Mode, tuple[int, int]] = {
    "half": (1, 2),
    "quad": (2, 2),
    "sextant": (2, 3),
    "octant": (2, 4),
    "ascii": (1, 1),
    "none": (0, 0),
}
"""Pixels per cell, across and down, where characters draw them."""


def default_mode(environ: Mapping[str, str], color_system: str | None) -> Mode:
    """How to draw pictures on this terminal, from what it says of itself unasked."""
    return "half" if color_system and environ.get("TERM") not in ("dumb", "unknown") else "ascii"


def palette_of(color_system: str | None) -> Palette:
    """The colours that pictures are dithered to: few blocks in wrong colours say less than greys."""
    if color_system in ("standard", "windows"):
        return "greys"
    return "256" if color_system == "256" else ""


def _sextants() -> str:
    """U+1FB00 on, in the order of their parts, but for what other blocks have: nothing, a left or right half, all."""
    known = {0: " ", 21: "▌", 42: "▐", 63: "█"}
    fresh = iter(range(0x1FB00, 0x1FB3C))
    return "".join(known[parts] if parts in known else chr(next(fresh)) for parts in range(64))


def _octants() -> str:
    """U+1CD00 on, in the order of their parts, but for what other blocks have."""
    quarters = (0, 0b0101, 0b1010, 0b1111)  # of an upper or lower half: nothing, left, right, both
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
"""By the sum of the parts in the first colour: 1 for the upper left one, 2 for its neighbour, and so on; ASCII by how
much ink there is."""

FRAME = 0, 229, 255
"""Red, green and blue of the line about what the network sees: few photos and no error map have it."""
