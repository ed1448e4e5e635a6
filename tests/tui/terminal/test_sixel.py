"""Sixel: the pixels of an image, or of any part of a row, replace its placeholders."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from frn_tui.engine.pictures.encoding import sixel_rows
from frn_tui.terminal.pixels import Graphics, next_number
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.terminal.sixel import cells_of_piece, cut
from frn_tui.widgets.cells import picture_line
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip

from frn.system.processes.messages import convert
from tests.tui.terminal.test_pixels import MESSAGE

IMAGE = re.compile(r'\x1bP0;1q"1;1;(\d+);(\d+)([^\x1b]*)\x1b\\')


def decoded(text: str) -> np.ndarray[Any, Any]:
    """Return what a terminal draws: (h, w, 3) in percent, -1 if a pixel is not set."""
    width, height, body = IMAGE.fullmatch(text).groups()  # type: ignore[union-attr]
    drawn = np.full((int(height), int(width), 3), -1)
    palette: dict[int, tuple[int, ...]] = {}
    colour, x, y = 0, 0, 0
    tokens = re.finditer(r"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|(\$)|(-)|!(\d+)([?-~])|([?-~])", body)
    for token in tokens:
        number, *rgb = token.group(1, 2, 3, 4)
        if number:
            palette[int(number)] = tuple(map(int, rgb))
        elif token[5]:
            colour = int(token[5])
        elif token[6] or token[7]:
            x, y = 0, y + 6 * bool(token[7])
        else:
            bits = ord(token[9] or token[10]) - 63
            times = int(token[8] or 1)
            for bit in range(6):
                if bits >> bit & 1:
                    drawn[y + bit, x : x + times] = palette[colour]
            x += times
    return drawn


@pytest.fixture
def photo() -> np.ndarray[Any, Any]:
    """An image of 3 x 5 cells of 8 x 17 pixels with few colours."""
    y, x = np.mgrid[:51, :40] // 8 * 8
    return np.stack([4 * y, 6 * x, 128 + y - x], 2).astype(np.uint8)


def rows(photo: np.ndarray[Any, Any]) -> list[list[str]]:
    return list(sixel_rows(photo, 3, 8, 256))


def images(row: list[str]) -> list[str]:
    return [f'\x1bP0;1q"1;1;40;17{piece.replace("|", "", 1)}\x1b\\' for piece in row]


def test_each_row_of_cells_shows_its_pixels_within_a_few_percent(photo: np.ndarray[Any, Any]) -> None:
    drawn = np.concatenate([decoded(images(row)[0]) for row in rows(photo)])
    assert drawn.min() >= 0
    assert np.abs(drawn * 2.55 - photo).mean() < 6


def test_part_of_a_row_shows_that_part_of_its_pixels(photo: np.ndarray[Any, Any]) -> None:
    piece = rows(photo)[1][0]
    colours, _, bands = piece.partition("|")
    whole = decoded(images([piece])[0])
    for first, last in ((0, 40), (8, 24), (39, 40), (0, 1)):
        part = f'\x1bP0;1q"1;1;{last - first};17{colours}{cut(bands, first, last)}\x1b\\'
        np.testing.assert_array_equal(decoded(part), whole[:, first:last])


def shown(photo: np.ndarray[Any, Any], columns: int, graphics: Graphics) -> Picture:
    lines = ["\t".join(row) for row in sixel_rows(photo, 3, photo.shape[1] // columns, 256)]
    about = {**MESSAGE, "columns": columns, "rows": 3, "pixels": [photo.shape[1], 51], "data": "\n".join(lines)}
    picture = replace(convert({**about, "mode": "sixel"}, Picture), number=next_number())
    graphics.mode = "sixel"
    graphics.send(picture)
    return picture


def written(strip: Strip) -> str:
    return "".join(style.render(text) if style else text for text, style, _ in strip)


def test_an_image_writes_its_pixels_and_keeps_the_text_around_it(photo: np.ndarray[Any, Any]) -> None:
    graphics = Graphics()
    picture = shown(photo, 5, graphics)
    line = picture_line(picture, 2, Size(5, picture.rows), Style(bgcolor="#102030"))
    whole = graphics.translated(f"before {written(Strip(line))} after")
    assert re.sub(r"\x1b(?:\[[\d;]*[mC]|[78]|P[^\x1b]*\x1b\\)", "", whole) == "before " + " " * 5 + " after"
    row = decoded(IMAGE.search(whole)[0])  # type: ignore[index]
    assert row.shape == (17, 40, 3)
    part = graphics.translated(written(Strip(line).crop(1, 3)))
    np.testing.assert_array_equal(decoded(IMAGE.search(part)[0]), row[:, 8:24])  # type: ignore[index]
    assert graphics.translated("no picture \x1b[0m") == "no picture \x1b[0m"
    del picture
    gone = graphics.translated(written(Strip(line)))
    assert "\x1bP" not in gone  # a removed image shows nothing
    assert "     " in gone


def test_wide_row_is_drawn_in_chunks_for_xterm() -> None:
    photo = np.zeros((51, 2000, 3), dtype=np.uint8)
    graphics = Graphics()
    picture = shown(photo, 100, graphics)
    line = picture_line(picture, 0, Size(100, picture.rows), Style())
    found = IMAGE.findall(graphics.translated(written(Strip(line).crop(10, 100))))
    assert [int(width) for width, _, _ in found] == [38 * 20, 48 * 20, 4 * 20]
    assert cells_of_piece(20) == 48
