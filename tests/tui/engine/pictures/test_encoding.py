"""Sixel and Kitty data and cells, compared with plain encoders that follow the formats byte by byte."""

import itertools
import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frn_tui.client.protocol import Heat
from frn_tui.engine.models import Models
from frn_tui.engine.pictures import previews
from frn_tui.engine.pictures.encoding import dithered, draw_frame, sixel_rows
from frn_tui.engine.pictures.half_blocks import cheapened, encode
from frn_tui.engine.pictures.previews import Previews, paint
from frn_tui.terminal.modes import FRAME, Palette
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.terminal.wire.cell_buffer import CellBuffer
from frn_tui.widgets.cells import picture_line
from numpy.typing import NDArray
from PIL import Image
from rich.color import ColorSystem
from rich.style import Style
from textual._compositor import LayoutUpdate
from textual.geometry import Region, Size
from textual.strip import Strip

from frn.images.ramp import RAMP

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


@pytest.mark.parametrize(
    ("seen", "columns", "rows"),
    [
        ((0.1, 0.2, 0.9, 0.7), [6, 7, 52, 53], [8, 9, 26, 27]),
        ((0.4, 0.4, 0.6, 0.5), [24, 35], [16, 19]),
        ((0.4, 0.2, 0.6, 0.9), [24, 35], [8, 35]),
    ],
)
def test_corners_are_an_eighth_of_the_shorter_side(seen: Any, columns: list[int], rows: list[int]) -> None:
    is_line = (draw_frame(np.zeros((40, 60, 3), np.uint8), seen, 1) == FRAME).all(2)
    assert np.flatnonzero(is_line[rows[0]]).tolist() == columns
    assert np.flatnonzero(is_line[:, columns[0]]).tolist() == rows


def test_half_blocks_show_only_the_corners_of_the_frame() -> None:
    photo = np.zeros((20, 20, 3), np.uint8)
    is_line = (draw_frame(photo, (0.1, 0.1, 0.9, 0.9), 1) == FRAME).all(2)
    assert np.flatnonzero(is_line[2]).tolist() == [2, 3, 16, 17]
    assert np.flatnonzero(is_line[:, 17]).tolist() == [2, 3, 16, 17]
    assert is_line.sum() == 12
    assert (draw_frame(photo, (0.1, -0.5, 0.9, 1.5), 1) == FRAME).all(2).sum() == 0  # both corners are outside


WHOLE = (0.0, 0.0, 1.0, 1.0)


def heat(errors: Any, low: float = 0.0, high: float = 1.0, *, smooth: bool = False) -> Heat:
    return {"map": np.asarray(errors).tolist(), "low": low, "high": high, "smooth": smooth}


def ramp(share: float) -> list[float]:
    """Return the colour of an error; the ramp has five colours at equal distances."""
    place = min(int(share * 4), 3)
    return [a + (b - a) * (share * 4 - place) for a, b in zip(RAMP[place], RAMP[place + 1], strict=True)]


@pytest.mark.parametrize("turned", [False, True])
def test_smooth_maps_blend_between_the_centres_of_locations(turned: bool) -> None:
    """Halfway to the next centre, both count equally; the blend is 3 t^2 - 2 t^3."""
    photo, errors, box = np.zeros((1, 12, 3), np.uint8), np.array([[0.0, 1.0, 0.5]]), (0.0, 0.0, 1.0, 1.0)
    drawn = (
        paint(photo.transpose(1, 0, 2), heat(errors.T, smooth=True), box, bare=True).transpose(1, 0, 2)
        if turned
        else paint(photo, heat(errors, smooth=True), box, bare=True)
    )
    blend = [3 * t**2 - 2 * t**3 for t in (1 / 8, 3 / 8, 5 / 8, 7 / 8)]
    levels = [0, 0, *blend, *(1 - share / 2 for share in blend), 0.5, 0.5]
    np.testing.assert_allclose(drawn[0], np.array(list(map(ramp, levels))), atol=0.51)


def test_photo_is_covered_in_proportion_to_the_error_up_to_four_fifths() -> None:
    photo, errors = np.full((2, 4, 3), 100, np.uint8), np.array([[0.0, 1.0], [0.5, 0.25]])
    drawn = paint(photo, heat(errors), WHOLE, bare=False)
    for (row, column), error in np.ndenumerate(errors):
        expected = [(1 - 0.8 * error) * 100 + 0.8 * error * colour for colour in ramp(error)]
        np.testing.assert_allclose(drawn[row, 2 * column : 2 * column + 2], [expected] * 2, atol=0.51)


@pytest.mark.parametrize("bare", [False, True])
def test_outside_its_box_a_photo_is_unchanged_or_darkened(bare: bool) -> None:
    photo = np.full((4, 8, 3), 100, np.uint8)
    drawn = paint(photo, heat([[1]], smooth=True), (0.25, 0.5, 0.75, 1.0), bare=bare)
    outside = np.ones((4, 8), bool)
    outside[2:, 2:6] = False
    assert (drawn[outside] == (30 if bare else 100)).all()
    assert (drawn[~outside] != drawn[0, 0]).any(1).all()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Record what is decoded; the number in a file's name is its size in bytes."""
    found: list[tuple[str, int]] = []

    def decode(data: bytes, path: Path, side: int) -> tuple[np.ndarray, tuple[int, int]]:
        found.append((path.name, side))
        return np.broadcast_to(np.uint8(0), (1, int(re.split("[. ]", path.name)[0]))), (4000, 3000)

    monkeypatch.setattr(previews, "decode_whole", decode)
    return found


def photo(folder: Path, name: str) -> str:
    (folder / name).write_text("photo")
    return str(folder / name)


@pytest.mark.parametrize(("longest", "side"), [(1, 128), (128, 128), (129, 256), (4097, 8192), (9000, 8192)])
def test_photo_is_decoded_at_the_next_size(
    tmp_path: Path, decoded: list[tuple[str, int]], longest: int, side: int
) -> None:
    assert Previews(Models()).photo(photo(tmp_path, "1"), longest)[1] == (4000, 3000)
    assert decoded == [("1", side)]


def test_finer_photo_is_reused_until_the_file_changes(tmp_path: Path, decoded: list[tuple[str, int]]) -> None:
    photos, name = Previews(Models()), photo(tmp_path, "1")
    for longest in (500, 512, 100, 600, 300):
        assert photos.photo(name, longest)[1] == (4000, 3000)
    assert decoded == [("1", 512), ("1", 1024)]
    os.utime(name, ns=(0, 1))
    photos.photo(name, 100)
    Path(name).write_text("longer")
    os.utime(name, ns=(0, 1))
    photos.photo(name, 100)
    assert decoded[2:] == [("1", 128)] * 2


def test_photo_in_a_zip_is_decoded_at_the_next_size_each_time(tmp_path: Path, decoded: list[tuple[str, int]]) -> None:
    with zipfile.ZipFile(tmp_path / "birds.zip", "w") as archive:
        archive.writestr("jay/1.jpg", "photo")
    photos = Previews(Models())
    for _ in range(2):
        photos.photo(str(tmp_path / "birds.zip" / "jay" / "1.jpg"), 200)
    assert decoded == [("1.jpg", 256)] * 2


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


@pytest.mark.parametrize(("noise", "size", "error"), [(0, 2532, 2.5639), (3, 2269, 3.5919), (40, 2593, 24.3969)])
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
