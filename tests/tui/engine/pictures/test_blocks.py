"""Characters and palettes, compared with values computed by hand."""

import itertools

import numpy as np
import pytest
from frn_tui.engine.pictures.encoding import dithered, encode
from frn_tui.terminal.modes import Palette

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
