"""Error map of a photo over the network's crop: how well each class reconstructs each part.

The photo is grey; the error is coloured from violet through red to yellow. Colours are more opaque where the error is
larger, so well reconstructed parts stay visible. The blocks are the locations of the feature map (about 5 x 5), its
full resolution.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from frn.images.ramp import RAMP
from frn.images.transforms import Pixels
from frn.system.files import MARK

MIN_COVER, MAX_COVER = 0.15, 0.75
PANEL = 252  # side of a panel in pixels: three times 84
GAP = 12
LINE = 18
INK, FAINT = (20, 20, 20), (110, 110, 110)
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
FONT = ImageFont.load_default(14)

Map = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Panel:
    """The error map of a class and the text below it."""

    title: str
    note: str
    error_map: Map  # squared errors, (h, w)


def overlay(crop: Pixels, error_map: Map, *, low: float, high: float) -> Image.Image:
    """Colour the grey crop (S, S, 3) by its errors (h, w), on a scale from `low` to `high`."""
    height, width = crop.shape[:2]
    share = np.clip((error_map - low) / (high - low), 0, 1) if high > low else np.zeros(error_map.shape)
    grid = Image.fromarray((255 * share).round().astype(np.uint8))
    level = np.asarray(grid.resize((width, height), Image.Resampling.NEAREST), dtype=np.float64) / 255
    colours = np.stack([np.interp(level, np.linspace(0, 1, len(RAMP)), channel) for channel in zip(*RAMP, strict=True)])
    cover = (MIN_COVER + (MAX_COVER - MIN_COVER) * level)[..., None]
    grey = np.asarray(Image.fromarray(crop).convert("L"), dtype=np.float64)[..., None]
    return Image.fromarray(((1 - cover) * grey + cover * colours.transpose(1, 2, 0)).round().astype(np.uint8))


def sheet(crop: Pixels, title: str, panels: Sequence[Panel]) -> Image.Image:
    """Draw the photo and each class's error map, the most likely class first, side by side on one scale."""
    maps = np.stack([panel.error_map for panel in panels])
    low, high = float(maps.min()), float(maps.max())
    pictures = [Image.fromarray(crop), *(overlay(crop, m, low=low, high=high) for m in maps)]
    captions = [(title, f"errors {low:.3g} (grey) to {high:.3g} (yellow)"), *((p.title, p.note) for p in panels)]
    columns = min(4, len(pictures))  # number of panels in a row, including the photo
    rows = -(-len(pictures) // columns)
    cell = (PANEL + GAP, PANEL + 2 * LINE + 2 * GAP)
    canvas = Image.new("RGB", (columns * cell[0] + GAP, rows * cell[1] + GAP), "white")
    draw = ImageDraw.Draw(canvas)
    for i, (picture, lines) in enumerate(zip(pictures, captions, strict=True)):
        left, top = GAP + i % columns * cell[0], GAP + i // columns * cell[1]
        canvas.paste(picture.resize((PANEL, PANEL), Image.Resampling.NEAREST), (left, top))
        for number, (line, ink) in enumerate(zip(lines, (INK, FAINT), strict=True)):
            draw.text((left, top + PANEL + 4 + number * LINE), fit(line, PANEL, FONT), fill=ink, font=FONT)
    return canvas


def mark() -> PngInfo:
    """Return a note for a PNG that names its creator."""
    note = PngInfo()
    note.add_text("Software", MARK)
    return note


def fit(text: str, width: int, font: Font) -> str:
    """Shorten a text to a width: a long name keeps its start and its end."""
    shown, removed = text, 0
    while font.getlength(shown) > width and removed < len(text):
        removed += 1
        head = (len(text) - removed) * 2 // 3
        shown = text[:head] + "…" + text[head + removed :]
    return shown
