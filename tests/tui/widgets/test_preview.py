"""Photos as cells, and keys in hidden lists."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from frn_tui.client.protocol import RenderPreview
from frn_tui.dialogs.dialogs import Choose
from frn_tui.dialogs.picker import Picker
from frn_tui.terminal.modes import MODES, Mode, default_mode
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.widgets.cells import picture_line
from frn_tui.widgets.lists import Options
from frn_tui.widgets.preview import PicturesWanted, Preview
from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from textual.app import App
from textual.geometry import Size
from textual.message import Message

from tests.tui.conftest import Driver

Play = Callable[..., Any]
Lines = Callable[[App[Any]], list[str]]
Styles = Callable[[App[Any]], list[list[Style]]]

SIZES = [(80, 24), (140, 40), (40, 12), (20, 5), (3, 1), (1, 1), (300, 80)]


def plain(columns: int, rows: int, mode: Mode = "half", grey: int = 0) -> Picture:
    return Picture(mode, columns, rows, bytes([grey] * 6) * columns * rows)


def wanted(told: list[Message]) -> list[RenderPreview]:
    return [request for message in told if isinstance(message, PicturesWanted) for request in message.requests]


def shown(preview: Preview, picture: Picture | None) -> None:
    """Show an image as if the engine had just rendered it."""
    preview.show("/x" if picture else "")
    preview.wanted = request = preview.request
    if request is not None:
        preview.provide(request, picture)


@pytest.mark.parametrize("size", SIZES)
async def test_every_mode_fills_every_size(play: Play, lines: Lines, size: tuple[int, int]) -> None:
    preview = Preview(mode="half", empty_text="Nothing to see yet")
    pilot, _ = await play(preview, size=size)
    for mode in MODES:
        preview.mode = mode
        for picture in (None, plain(20, 10), plain(20, 10, mode)):
            shown(preview, picture)
            await pilot.pause()
            seen = lines(pilot.app)
            assert [len(line) for line in seen] == [size[0]] * size[1]


async def test_preview_requests_a_new_image_only_when_its_size_or_mode_changes(play: Play) -> None:
    preview = Preview(mode="half")
    pilot, told = await play(preview)
    preview.show("/x")
    await pilot.pause()
    assert wanted(told) == [RenderPreview("/x", 80, 24, "half")]
    preview.provide(wanted(told)[0], plain(80, 24))
    await pilot.resize_terminal(80, 24)
    assert len(wanted(told)) == 1
    await pilot.resize_terminal(90, 30)
    preview.mode = "kitty"
    await pilot.pause()
    assert len(wanted(told)) == 3
    assert wanted(told)[-1] == RenderPreview("/x", 90, 30, "kitty", cell=[10, 20])
    preview.mode = "none"
    await pilot.pause()
    assert len(wanted(told)) == 3


async def test_image_of_a_different_size_is_centred_until_the_right_one_arrives(play: Play, styles: Styles) -> None:
    preview = Preview(mode="half")
    pilot, _ = await play(preview, size=(80, 20))
    shown(preview, plain(20, 5, grey=255))
    await pilot.pause()
    bright = [
        (x, y)
        for y, line in enumerate(styles(pilot.app))
        for x, style in enumerate(line)
        if style.bgcolor and style.bgcolor.triplet == (255, 255, 255)
    ]
    assert (min(bright), max(bright), len(bright)) == ((30, 7), (49, 11), 100)


async def test_arrows_move_only_an_enlarged_photo(play: Play) -> None:
    preview = Preview(mode="half")
    pilot, told = await play(preview)
    preview.focus()
    shown(preview, plain(80, 24))
    await pilot.press("left")
    assert (preview.zoom, preview.centre) == (1.0, (0.5, 0.5))
    preview.look_at(4.0)
    shown(preview, replace(plain(80, 24), view=(0.375, 0.375, 0.625, 0.625)))
    await pilot.press("right", "down")
    assert preview.centre == (0.5625, 0.5625)
    assert wanted(told)[-1] == RenderPreview("/x", 80, 24, zoom=4.0, centre=[0.5625, 0.5625])
    preview.look_at(99.0, (2.0, 0.0))
    assert preview.zoom == 16.0
    preview.look_at(0.1, (0.9, 0.9))
    assert (preview.zoom, preview.centre) == (1.0, (0.5, 0.5))


async def test_the_hint_is_centred_and_wrapped(play: Play, lines: Lines) -> None:
    preview = Preview(mode="half", empty_text="p classifies a photo")
    pilot, _ = await play(preview, size=(40, 9))
    assert lines(pilot.app)[4] == "p classifies a photo".center(40)
    preview.empty_text = "[bold]other\nlines"
    await pilot.resize_terminal(12, 4)
    assert [line.strip() for line in lines(pilot.app)] == ["", "[bold]other", "lines", ""]
    preview.empty_text = "a\x1b\u202eb " + "🦜" * 20
    await pilot.pause()
    assert all(char.isprintable() for line in lines(pilot.app) for char in line)
    assert [cell_len(line) for line in lines(pilot.app)] == [12] * 4


async def test_the_previous_photo_does_not_stay_under_the_name_of_the_next(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frn_tui.widgets.preview.LATE", 0.01)
    preview = Preview(mode="half")
    pilot, _ = await play(preview)
    for paths, stays in ((["/y", "/x"], True), (["/y"], False)):
        shown(preview, picture := plain(80, 24))
        for path in paths:
            preview.show(path)
        assert preview.picture is picture  # steps do not flicker
        await pilot.pause(0.1)
        assert (preview.picture is picture) == stays


PLAIN = Style()


@pytest.mark.parametrize(
    ("environ", "color_system", "mode"),
    [
        ({}, "truecolor", "half"),
        ({}, "256", "half"),
        ({}, "standard", "half"),
        ({}, "windows", "half"),
        ({}, None, "none"),
        ({"NO_COLOR": "1"}, "truecolor", "half"),
        ({"TERM": "dumb"}, "truecolor", "none"),
        ({"TERM": "xterm-256color"}, "256", "half"),
    ],
)
def test_drawing_mode_follows_the_answer_from_the_terminal(
    environ: dict[str, str], color_system: str | None, mode: Mode
) -> None:
    assert default_mode(environ, color_system) == mode


def test_cell_has_its_colours() -> None:
    picture = Picture("half", 2, 1, bytes([1, 2, 3, 4, 5, 6, 7, 8, 9, 254, 16, 0]))
    _, left, right, _ = picture_line(picture, 0, Size(2, 1), PLAIN)
    assert (left.text, right.text) == ("▀", "▀")
    assert left.style == Style(color="#010203", bgcolor="#040506")
    assert right.style == Style(color="#070809", bgcolor="#fe1000")
    assert right.style.color == Color.from_rgb(7, 8, 9)


def test_an_image_is_centred_or_cropped_and_cells_of_the_same_style_are_joined() -> None:
    picture = Picture("half", 3, 2, bytes(36))
    lines = ["".join(text for text, _, _ in picture_line(picture, y, Size(6, 4), PLAIN)) for y in range(4)]
    assert lines == [" " * 6, " ▀▀▀  ", " ▀▀▀  ", " " * 6]
    assert [segment.text for segment in picture_line(picture, 0, Size(2, 1), PLAIN)] == ["", "▀▀", ""]


async def test_page_keys_do_nothing_in_a_hidden_list(play: Callable[..., Any]) -> None:
    options = Options("a", "b", "c")
    options.display = False
    pilot, _ = await play(options)
    options.highlighted = 1
    options.action_page_up()
    options.action_page_down()
    assert options.highlighted == 1
    options.display = True
    await pilot.pause()
    options.action_page_down()
    assert options.highlighted == 2
    options.action_page_up()
    assert options.highlighted == 0


@pytest.mark.app(size=(80, 24))
async def test_only_the_screen_on_top_can_be_answered(driver: Driver) -> None:
    app = driver.app
    await driver.keys("p")
    below = app.screen
    assert isinstance(below, Picker)
    app.push_screen(Choose("above", ["a"]))
    await driver.pilot.pause()
    below.dismiss(None)
    assert [type(screen) for screen in app.screen_stack[-2:]] == [Picker, Choose]
    await driver.keys("escape", "escape")
    assert app.screen is app.workspace


@pytest.mark.app(size=(80, 24))
async def test_work_may_be_cancelled_before_its_first_step(driver: Driver) -> None:
    begun = []

    async def work(number: int) -> None:
        begun.append(number)

    driver.app.workspace.context.start(work, 1).cancel()
    driver.app.workspace.context.start(work, 2)
    await driver.idle()
    assert begun == [2]
