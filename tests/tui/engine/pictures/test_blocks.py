"""Characters and palettes, compared with values computed by hand."""

import itertools
import re
from collections.abc import Iterable

import numpy as np
import pytest
from frn_tui.engine.pictures.encoding import dithered
from frn_tui.engine.pictures.half_blocks import cheapened, encode
from frn_tui.terminal.modes import Palette
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.terminal.wire.cell_buffer import CellBuffer
from frn_tui.widgets.cells import picture_line
from numpy.typing import NDArray
from rich.color import ColorSystem
from rich.style import Style
from textual._compositor import LayoutUpdate
from textual.geometry import Region, Size
from textual.strip import Strip

CUBE = (0, 95, 135, 175, 215, 255)
COLOURS: dict[Palette, list[tuple[int, ...]]] = {
    "256": [*itertools.product(CUBE, CUBE, CUBE), *((level,) * 3 for level in range(8, 239, 10))],
    "greys": [(level,) * 3 for level in (0, 128, 192, 255)],
}


@pytest.mark.parametrize("palette", COLOURS)
def test_dithering_keeps_the_colours_of_the_palette_and_uses_no_other(palette: Palette) -> None:
    pixels = np.array([COLOURS[palette]], np.uint8)
    assert np.abs(dithered(pixels, palette).astype(int) - pixels).max() <= 3  # Pillow merges colours that are so close
    mixed = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    mixed[20:] = np.arange(216, 256, dtype=np.uint8)[:, None]
    assert set(map(tuple, dithered(mixed, palette).reshape(-1, 3).tolist())) <= set(COLOURS[palette])


def test_cells_are_written_row_by_row() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2 * 4, 3, 3), dtype=np.uint8)
    found = np.frombuffer(encode(pixels), np.uint8).reshape(4, 3, 2, 3)
    np.testing.assert_array_equal(found, pixels.reshape(4, 2, 3, 3).transpose(0, 2, 1, 3))


def written(pixels: NDArray[np.uint8]) -> str:
    """Return what a terminal receives to show an image."""
    columns, rows = pixels.shape[1], len(pixels) // 2
    picture = Picture("half", columns, rows, encode(pixels))
    lines: list[Iterable[Strip]] = [
        [Strip(picture_line(picture, y, Size(columns, rows), Style()))] for y in range(rows)
    ]
    cells = CellBuffer()
    cells.take(LayoutUpdate(lines, Region(0, 0, columns, rows)), columns, rows)
    return cells.written(ColorSystem.TRUECOLOR, 1 << 20)[0]


def test_the_terminal_shows_each_half_in_its_colour_with_the_fewest_codes() -> None:
    colours = np.array([(9, 9, 9), (200, 0, 0), (0, 200, 0)], np.uint8)
    pixels = colours[np.random.default_rng(0).integers(0, 3, (8, 30))]
    text, shown = written(pixels), []
    now: dict[str, tuple[int, ...]] = {"38": (0, 0, 0), "48": (0, 0, 0)}
    for codes, char in re.findall(r"\x1b\[([0-9;]*)[Hm]|([▀▄█ ])", text):
        for ground, *colour in re.findall(r"([34]8);2;(\d+);(\d+);(\d+)", codes):
            now[ground] = tuple(map(int, colour))
        if char:
            shown.append((now["38" if char in "▀█" else "48"], now["38" if char in "▄█" else "48"]))
    expected = np.stack([pixels[0::2], pixels[1::2]], 2)
    np.testing.assert_array_equal(np.array(shown).reshape(expected.shape), expected)
    assert set("▀▄█ ") <= set(text)
    assert text.count(";2;") < 130  # 240 halves


def test_a_cheap_image_takes_a_third_of_the_bytes_and_looks_alike() -> None:
    draws, (y, x) = np.random.default_rng(0), np.mgrid[:60, :80]
    disc = ((x - 40) ** 2 + (y - 30) ** 2 < 500)[..., None]
    photo = np.where(disc, (200, 120, 40), np.stack([60 + x, 90 + y, 150 - x], 2)) + draws.normal(0, 6, (60, 80, 3))
    pixels = photo.clip(0, 255).astype(np.uint8)
    cheap = cheapened(pixels)
    assert len(written(cheap).encode()) < len(written(pixels).encode()) / 3
    off = cheap - photo
    assert np.sqrt((off**2).mean()) < 12
    blocks = off.reshape(12, 5, 16, 5, 3).mean((1, 3))  # from afar, errors cancel out
    assert np.abs(blocks).max() < 12


@pytest.mark.parametrize(("noise", "size", "error"), [(0, 2874, 2.0986), (3, 2469, 3.4054), (40, 2865, 23.0026)])
def test_bytes_and_errors_of_a_cheap_image_are_as_recorded(noise: int, size: int, error: float) -> None:
    draws, (y, x) = np.random.default_rng(0), np.mgrid[:24, :30]
    photo = np.stack([60 + 6 * x, 90 + 60 * (x > y), 150 - 5 * y], 2) + draws.normal(0, noise, (24, 30, 3))
    pixels = photo.clip(0, 255).astype(np.uint8)
    cheap = cheapened(pixels)
    assert len(written(cheap)) == pytest.approx(size, rel=0.002)
    assert np.abs(cheap - photo).mean() == pytest.approx(error, rel=0.002)


@pytest.mark.parametrize("shape", [(2, 1, 3), (2, 9, 3), (40, 1, 3)])
def test_a_flat_image_of_any_size_keeps_its_colour(shape: tuple[int, int, int]) -> None:
    pixels = np.full(shape, (250, 3, 77), dtype=np.uint8)
    assert np.abs(cheapened(pixels).astype(int) - pixels).max() <= 1
