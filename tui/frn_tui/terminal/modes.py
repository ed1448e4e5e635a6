"""Modes of drawing images: pixels if the terminal supports them, otherwise half blocks.

A terminal cell is about twice as high as it is wide; a half block shows 1 x 2 pixels in its two colours. Pixels use the
Kitty protocol or Sixel (`frn_tui.terminal.pixels`).
"""

from collections.abc import Mapping
from typing import Literal

Mode = Literal["kitty", "sixel", "half", "none"]
Palette = Literal["", "256", "greys"]  # colours: all, the 256 in a terminal's table, or black, white and two greys
PIXELS: tuple[Mode, ...] = ("kitty", "sixel")  # modes that some terminals support
MODES: tuple[Mode, ...] = ("half", "none")  # modes that every terminal supports
HALF_BLOCK = "▀"
FRAME = 0, 229, 255  # RGB colour of the line around the model's input, rare in photos and absent from error maps


def default_mode(environ: Mapping[str, str], color_system: str | None) -> Mode:
    """Return the drawing mode for this terminal according to its environment, without queries."""
    return "half" if color_system and environ.get("TERM") not in ("dumb", "unknown") else "none"


def palette_of(color_system: str | None) -> Palette:
    """Return the palette to which images are dithered; with very few colours, greys show more."""
    if color_system in ("standard", "windows"):
        return "greys"
    return "256" if color_system == "256" else ""
