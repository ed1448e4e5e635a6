"""Characters and palettes, compared with values computed by hand."""

import itertools

import numpy as np
import pytest
from frn_tui.engine.pictures.encoding import dithered, encode
from frn_tui.terminal.modes import CELLS, PARTS, Mode, Palette

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


def test_ascii_density_follows_the_perceived_brightness() -> None:
    """Red, green and blue are 0.3, 0.59 and 0.11 as bright as white."""
    colours = [(0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (127, 127, 127), (128, 128, 128)]
    found = np.frombuffer(encode(np.array([colours], np.uint8), "ascii"), np.uint8).reshape(-1, 7)
    assert found[:, 0].tolist() == [0, 2, 5, 1, 9, 4, 5]
    assert found[:, 1:4].tolist() == found[:, 4:].tolist() == [list(colour) for colour in colours]


@pytest.mark.parametrize("mode", [mode for mode in CELLS if mode != "half"])
def test_each_split_of_a_cell_has_its_number_and_rounded_mean_colours(mode: Mode) -> None:
    """The upper left part counts 1, its neighbour 2, and so on; the last part is background."""
    across, down = PARTS[mode]
    count = across * down
    for number in range(1, 2 ** (count - 1)):
        is_ink = (number >> np.arange(count) & 1).astype(bool)
        cell = np.empty((count, 3), np.uint8)
        cell[is_ink], cell[~is_ink] = (200, 100, 40), (20, 60, 90)
        cell[int(is_ink.argmax())] += 1
        ink = [round(value + 1 / is_ink.sum()) for value in (200, 100, 40)]
        found = np.frombuffer(encode(cell.reshape(down, across, 3), mode), np.uint8)
        assert found.tolist() == [number, *ink, 20, 60, 90]


def test_cells_are_written_row_by_row_beyond_one_chunk() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2 * 40, 2 * 30, 3), dtype=np.uint8)
    whole = encode(pixels, "quad")
    assert len(whole) == 40 * 30 * 7
    for row, column in ((0, 29), (34, 4), (39, 29)):
        cell = pixels[2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        assert whole[7 * (30 * row + column) :][:7] == encode(cell, "quad")
