"""Images as pixels: commands to the terminal, placeholders in the text, and Sixel."""

import base64
import gc
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from frn_tui.app import FrnApp
from frn_tui.engine.pictures.encoding import sixel_rows
from frn_tui.panes.review import Review
from frn_tui.terminal.marks import MARKS, PLACEHOLDER
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.pixels import Graphics, next_number, placeholders
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.terminal.sixel import cells_of_piece, cut
from frn_tui.terminal.terminal import Answered
from frn_tui.widgets.cells import picture_line
from rich.cells import cell_len
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip

from frn.system.processes.messages import convert

MESSAGE = {"cells": "", "columns": 3, "rows": 2, "view": [0.0, 0.0, 1.0, 1.0], "seen": [0.1, 0.0, 0.9, 1.0]}
COMMAND = re.compile(r"\x1b_G([^;\x1b]*);?([^\x1b]*)\x1b\\")


def picture(mode: Mode = "kitty", rgb: bytes = bytes(3 * 6 * 4)) -> Picture:
    data = base64.b64encode(zlib.compress(rgb)).decode() if mode == "kitty" else "#0;2;9;9;9|#0!6~\n#0;2;9;9;9|#0!6~"
    return replace(convert({**MESSAGE, "mode": mode, "pixels": [6, 4], "data": data}, Picture), number=next_number())


def keys(command: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in command.split(","))


def test_every_mark_is_a_zero_width_combining_character() -> None:
    assert len(MARKS) == len(set(MARKS)) == 297
    assert (MARKS[0], MARKS[1], MARKS[296]) == ("\u0305", "\u030d", "\U0001d244")  # from the protocol's table
    assert all(cell_len(PLACEHOLDER + mark * 3) == 1 for mark in MARKS)


def test_a_placeholder_line_is_cut_between_cells() -> None:
    line = picture_line(picture(), 1, Size(3, 2), Style())[1:2]
    strip = Strip(line)
    assert strip.cell_length == 3
    assert strip.crop(1, 3).text == "".join(f"{PLACEHOLDER}{MARKS[1]}{MARKS[x]}{line[0].text[3]}" for x in (1, 2))


def test_terminal_gets_pixels_before_their_placeholders() -> None:
    written: list[str] = []
    rgb = bytes(range(256)) * 2 + b"x" * (6 * 4 * 3 * 200)
    shown = picture(rgb=rgb)
    Graphics(written.append).send(shown)
    commands = COMMAND.findall("".join(written))
    about = keys(commands[0][0])
    number = about.pop("i")
    assert about == keys("a=T,U=1,q=2,f=24,o=z,s=6,v=4,c=3,r=2,m=1")
    assert [keys(command)["m"] for command, _ in commands[1:]] == ["1"] * (len(commands) - 2) + ["0"]
    assert all(len(data) <= 4096 and (len(data) % 4 == 0) for _, data in commands)
    assert zlib.decompress(base64.b64decode("".join(data for _, data in commands))) == rgb
    cell, style = placeholders(shown, 0, Style(bgcolor="#101010"))[0]
    assert style.color is not None
    assert int(number) == MARKS.index(cell[3]) << 24 | (style.color.number or 0)
    assert "38;5;" in style.render("x")  # a palette colour, which tmux leaves unchanged
    assert 16 <= (style.color.number or 0) <= 255


def test_unused_image_is_deleted_and_used_image_is_sent_again() -> None:
    written: list[str] = []
    graphics = Graphics(written.append)
    kept, dropped = picture(), picture()
    graphics.send(kept)
    graphics.send(dropped)
    graphics.send(dropped)
    assert len(written) == 2
    number = keys(COMMAND.findall(written[1])[0][0])["i"]
    del dropped
    gc.collect()
    graphics.send(picture())
    assert keys(COMMAND.findall(written[2])[0][0]) == {"a": "d", "d": "I", "i": number, "q": "2"}
    written.clear()
    graphics.send_again()
    again = COMMAND.findall("".join(written))
    assert keys(again[0][0])["i"] == keys(COMMAND.findall(graphics.farewell())[-1][0])["i"]


def test_commands_are_wrapped_for_tmux() -> None:
    written: list[str] = []
    graphics = Graphics(written.append)
    graphics.in_tmux = True
    graphics.send(picture())
    wrapped = re.findall(r"\x1bPtmux;((?:\x1b\x1b|[^\x1b])*)\x1b\\", written[0])
    assert len(wrapped) == 2
    assert all(COMMAND.fullmatch(command.replace("\x1b\x1b", "\x1b")) for command in wrapped)


def app_with(images: str) -> Callable[..., FrnApp]:
    return lambda place, **options: FrnApp(place, **{**options, "images": images})


@pytest.mark.parametrize("images", ["kitty", "sixel"])
async def test_pixels_stay_visible_beside_dialogs(drive: Any, lines: Callable[[Any], list[str]], images: Mode) -> None:
    user = await drive(app=app_with(images))
    await user.until(lambda: "\n".join(lines(user.app)).count(PLACEHOLDER) > 100)
    user.app.workspace.ask(["/queries/jay-10.jpg", "/queries/owl-10.jpg"])
    await user.idle()
    await user.until(lambda: user.app.workspace.query_pane.picture.preview.picture is not None)
    shown = user.app.workspace.query_pane.picture.preview.picture
    assert shown.is_pixels
    assert shown.pixels == (shown.columns * 10, shown.rows * 20)
    await user.pilot.press("m")
    await user.pilot.pause()
    assert PLACEHOLDER in "\n".join(lines(user.app))  # its colour identifies the image
    await user.pilot.press("escape", "L")
    await user.pilot.pause()
    assert isinstance(user.app.screen, Review)
    await user.until(lambda: PLACEHOLDER in "\n".join(lines(user.app)))


async def test_option_overrides_the_answer_from_the_terminal(drive: Any) -> None:
    user = await drive(app=app_with("auto"))
    app = user.app
    await app.hear(Answered(name="kitty(0.41.1)", cell=(9, 18)))
    assert app.context.mode == "half"  # the default applies
    await app.hear(Answered(can=("62",)))
    assert app.context.mode == "kitty"
    assert (app.graphics.mode, app.workspace.photos_pane.gallery.mode) == ("kitty", "kitty")

    user = await drive(app=app_with("none"))
    await user.app.hear(Answered(name="kitty(0.41.1)"))
    await user.app.hear(Answered(can=("62",)))
    assert user.app.context.mode == "none"


async def test_sixel_waits_for_the_number_of_colours(drive: Any) -> None:
    user = await drive(app=app_with("auto"))
    app = user.app
    await app.hear(Answered(can=("62", "4")))
    assert app.context.mode == "half"
    await app.hear(Answered(colours=16))
    await app.hear(Answered(can=("62", "4")))
    assert (app.context.mode, app.graphics.colours) == ("sixel", 16)


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


HALF_BLOCKS = {"mode": "half", "columns": 2, "rows": 1, "pixels": [2, 2], "view": [0.0, 0.0, 1.0, 1.0]}


def test_an_image_is_read_from_a_message() -> None:
    message = {**HALF_BLOCKS, "cells": base64.b64encode(bytes(range(12))).decode()}
    picture = convert(message, Picture)
    assert picture == Picture("half", 2, 1, bytes(range(12)), (0.0, 0.0, 1.0, 1.0), (2, 2))


def test_a_message_that_is_not_an_image_is_refused() -> None:
    with pytest.raises(ValueError, match="base64"):
        convert({**HALF_BLOCKS, "cells": "!!!!"}, Picture)
