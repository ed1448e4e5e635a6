"""Sixel and Kitty data, compared with plain encoders that follow the formats byte by byte."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
from frn_tui.engine.pictures.encoding import draw_frame, sixel_rows
from frn_tui.terminal.modes import FRAME
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]


def noise(height: int, width: int) -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def plain(pixels: Pixels, rows: int, cell_width: int, colours: int) -> Iterator[list[str]]:
    """Write each row of cells pixel by pixel."""
    image = Image.fromarray(pixels).quantize(colours, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    palette, numbers, high = image.getpalette() or [], np.asarray(image), len(pixels) // rows
    wide = 960 // cell_width * cell_width  # xterm accepts at most 1,000 pixels
    for top in range(0, len(pixels), high):
        pieces = []
        for left in range(0, pixels.shape[1], wide):
            piece = numbers[top : top + high, left : left + wide]
            shares = {c: [round(value / 2.55) for value in palette[3 * c : 3 * c + 3]] for c in sorted({*piece.flat})}
            defined = "".join(f"#{c};2;{red};{green};{blue}" for c, (red, green, blue) in shares.items())
            bands = (piece[first : first + 6] for first in range(0, high, 6))
            pieces.append(defined + "|" + "-".join("$".join(of_colours(band)) for band in bands))
        yield pieces


def of_colours(band: Pixels) -> Iterator[str]:
    for colour in sorted({*band.flat}):
        text, gap = f"#{colour}", 0
        for column in band.T:
            if bits := sum(1 << place for place, number in enumerate(column) if number == colour):
                text += ("?" * gap if gap < 4 else f"!{gap}?") + chr(63 + bits)
                gap = 0
            else:
                gap += 1
        yield text


@pytest.mark.parametrize(
    ("rows", "high", "cell_width", "columns", "colours"),
    [(3, 17, 8, 5, 64), (2, 6, 3, 4, 64), (1, 1, 1, 1, 2), (4, 13, 7, 9, 7), (7, 13, 20, 100, 3), (3, 4, 500, 3, 2)],
)
def test_sixel_equals_a_plain_encoder(rows: int, high: int, cell_width: int, columns: int, colours: int) -> None:
    pixels = noise(rows * high, cell_width * columns)
    pixels[:, : cell_width * columns // 2] = pixels[:, :1]  # runs and gaps
    assert list(sixel_rows(pixels, rows, cell_width, colours)) == list(plain(pixels, rows, cell_width, colours))


@pytest.mark.parametrize(
    ("height", "width", "allowed", "used"),
    [(100, 300, 256, 100), (100, 303, 256, 101), (96, 200, 256, 64), (30, 40, 256, 64), (100, 300, 80, 80)],
)
def test_colours_grow_with_the_area_from_64_up_to_the_limit(height: int, width: int, allowed: int, used: int) -> None:
    (row,) = sixel_rows(noise(height, width), 1, width, allowed)
    assert len(re.findall("#[0-9]+;2;", row[0])) == used


@pytest.mark.parametrize(("near", "far", "lines"), [(1e-6, 1 - 0.9e-6, 0), (1.5e-6, 1 - 1.5e-6, 2)])
def test_a_part_that_ends_within_a_millionth_of_a_side_has_no_line_there(near: float, far: float, lines: int) -> None:
    photo = np.zeros((20, 20, 3), np.uint8)
    for seen in [(near, 0, 1, 1), (0, near, 1, 1), (0, 0, far, 1), (0, 0, 1, far)]:
        assert (draw_frame(photo, seen, 2) == FRAME).all(2).sum() == lines * 20, seen


def test_half_blocks_show_only_the_corners_of_the_frame() -> None:
    photo = np.zeros((20, 20, 3), np.uint8)
    is_line = (draw_frame(photo, (0.1, 0.1, 0.9, 0.9), 1) == FRAME).all(2)
    assert np.flatnonzero(is_line[2]).tolist() == [2, 3, 16, 17]
    assert np.flatnonzero(is_line[:, 17]).tolist() == [2, 3, 16, 17]
    assert is_line.sum() == 12
    assert (draw_frame(photo, (0.1, -0.5, 0.9, 1.5), 1) == FRAME).all(2).sum() == 0  # both corners are outside
