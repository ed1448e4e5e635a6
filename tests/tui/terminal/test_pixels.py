"""Images as pixels: the commands to the terminal, and the placeholders in the text."""

import base64
import gc
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from frn_tui.app import FrnApp
from frn_tui.panes.review import Review
from frn_tui.terminal.marks import MARKS, PLACEHOLDER
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.pixels import Graphics, next_number, placeholders
from frn_tui.terminal.rendered_picture import Picture
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
