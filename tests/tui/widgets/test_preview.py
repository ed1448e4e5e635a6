from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from frn_tui.client.protocol import RenderPreview
from frn_tui.terminal.modes import MODES, Mode
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.widgets.preview import PicturesWanted, Preview
from rich.cells import cell_len
from rich.style import Style
from textual.app import App
from textual.message import Message

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
