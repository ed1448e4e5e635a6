from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from frn_tui.client.protocol import RenderPreview
from frn_tui.terminal.modes import MODES, Mode
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.widgets.preview import Preview
from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.app import App
from textual.message import Message
from textual.pilot import Pilot

Play = Callable[..., None]
Lines = Callable[[App[Any]], list[str]]
Styles = Callable[[App[Any]], list[list[Style]]]

SIZES = [(80, 24), (140, 40), (40, 12), (20, 5), (3, 1), (1, 1), (300, 80)]


def plain(columns: int, rows: int, mode: Mode = "half", grey: int = 0) -> Picture:
    return Picture(mode, columns, rows, (b"\x01" + bytes([grey] * 6)) * columns * rows, (2 * columns, 4 * rows))


def wanted(told: list[Message]) -> list[RenderPreview | None]:
    return [message.preview.request("/x") for message in told if isinstance(message, Preview.Wanted)]


@pytest.mark.parametrize("size", SIZES)
def test_every_mode_fills_every_size(play: Play, lines: Lines, size: tuple[int, int]) -> None:
    preview = Preview(mode="half", empty_text="Nothing to see yet")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        for mode in MODES:
            preview.mode = mode
            for picture, grid in ((None, None), (plain(20, 10), None), (plain(20, 10, mode), [[0.0, 1.0]])):
                preview.show(picture)
                preview.show_numbers(grid)
                await pilot.pause()
                seen = lines(pilot.app)
                assert [len(line) for line in seen] == [size[0]] * size[1]

    play(preview, scenario, size=size)


def test_preview_requests_a_new_image_only_when_its_size_or_mode_changes(play: Play) -> None:
    preview = Preview(mode="half")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        assert wanted(told) == [RenderPreview("/x", 80, 24, "half")]
        preview.show(plain(80, 24))
        await pilot.resize_terminal(80, 24)
        assert len(wanted(told)) == 1
        await pilot.resize_terminal(90, 30)
        preview.mode = "quad"
        preview.mode = "sextant"
        await pilot.pause()
        assert [type(message) for message in told].count(Preview.Wanted) == 3
        assert preview.request("/x") == RenderPreview("/x", 90, 30, "sextant")
        preview.mode = "none"
        await pilot.pause()
        assert preview.request("/x") is None
        assert [type(message) for message in told].count(Preview.Wanted) == 3

    play(preview, scenario)


def test_image_of_a_different_size_is_shown_until_the_right_one_arrives(play: Play, styles: Styles) -> None:
    preview = Preview(mode="half")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        preview.show(plain(20, 5, grey=255))
        await pilot.pause()
        bright = [
            (x, y)
            for y, line in enumerate(styles(pilot.app))
            for x, style in enumerate(line)
            if style.bgcolor and style.bgcolor.triplet == (255, 255, 255)
        ]
        assert (min(bright), max(bright), len(bright)) == ((0, 0), (79, 19), 1600)

    play(preview, scenario, size=(80, 20))


def test_arrows_move_only_an_enlarged_photo(play: Play) -> None:
    preview = Preview(mode="half")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        preview.focus()
        preview.show(plain(80, 24))
        await pilot.press("left")
        assert (preview.zoom, preview.centre) == (1.0, (0.5, 0.5))
        preview.look_at(4.0)
        preview.show(replace(plain(80, 24), view=(0.375, 0.375, 0.625, 0.625)))
        await pilot.press("right", "down")
        assert preview.centre == (0.5625, 0.5625)
        assert wanted(told)[-1] == RenderPreview("/x", 80, 24, zoom=4.0, centre=[0.5625, 0.5625])
        preview.look_at(99.0, (2.0, 0.0))
        assert preview.zoom == 16.0
        preview.look_at(0.1, (0.9, 0.9))
        assert (preview.zoom, preview.centre) == (1.0, (0.5, 0.5))

    play(preview, scenario)


def test_wheel_zooms_around_the_pointer_and_dragging_moves(play: Play) -> None:
    preview = Preview(mode="half")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        preview.show(plain(80, 24))
        await pilot._post_mouse_events([events.MouseScrollUp], offset=(20, 6))
        assert preview.zoom == 1.25
        x, y = preview.centre
        share = (20.5 / 80, 6.5 / 24)  # the part of the photo under the pointer before and after
        assert x - 0.4 + 0.8 * share[0] == pytest.approx(share[0])
        assert y - 0.4 + 0.8 * share[1] == pytest.approx(share[1])
        preview.look_at(2.0)
        preview.show(replace(plain(80, 24), view=(0.25, 0.25, 0.75, 0.75)))
        await pilot.mouse_down(offset=(40, 12))
        await pilot.hover(offset=(32, 12))
        await pilot.mouse_up(offset=(32, 12))
        assert preview.centre == pytest.approx((0.55, 0.5))

    play(preview, scenario)


@pytest.mark.parametrize("mode", MODES[:-1])
def test_numbers_are_centred_in_their_blocks(play: Play, lines: Lines, mode: Mode) -> None:
    preview = Preview(mode=mode)
    grid = [[5.0 * i + j for j in range(5)] for i in range(5)]

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        preview.show(plain(40, 20, mode))
        preview.show_numbers(grid)
        await pilot.pause()
        seen = lines(pilot.app)
        for i in range(5):
            for j in range(5):
                assert seen[4 * i + 2][20 + 8 * j + 4] == str(min(10 * (5 * i + j) // 24, 9))
        preview.show_numbers(None)
        await pilot.pause()
        assert not any(char.isdigit() for line in lines(pilot.app) for char in line)

    play(preview, scenario, size=(80, 20))


@pytest.mark.parametrize("mode", ["half", "quad"])
@pytest.mark.parametrize(("grey", "digit"), [(0, (255, 255, 255)), (255, (0, 0, 0))])
def test_numbers_contrast_with_the_image(
    play: Play, styles: Styles, mode: Mode, grey: int, digit: tuple[int, int, int]
) -> None:
    preview = Preview(mode=mode)

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        preview.show(plain(40, 20, mode, grey))
        preview.show_numbers([[1.0]])
        await pilot.pause()
        style = styles(pilot.app)[10][40]
        assert style.bold
        assert style.color is not None
        assert style.color.triplet == digit

    play(preview, scenario, size=(80, 20))


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light", "ansi-dark", "ansi-light"])
def test_no_color_gives_ascii_without_a_crash(
    play: Play, lines: Lines, monkeypatch: pytest.MonkeyPatch, theme: str
) -> None:
    """A segment without a style would end the app there."""
    monkeypatch.setenv("NO_COLOR", "1")
    preview = Preview(mode="ascii")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        for mode in MODES:
            preview.mode = mode
            for picture in (None, plain(20, 10, "ascii")):
                preview.show(picture)
                preview.show_numbers([[1.0, 2.0]] if picture else None)
                await pilot.pause()
                assert len(lines(pilot.app)) == 24

    play(preview, scenario, theme=theme)


def test_theme_change_inverts_ascii(play: Play, lines: Lines) -> None:
    preview = Preview(mode="ascii")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        preview.show(Picture("ascii", 40, 20, (b"\x09" + bytes(6)) * 800))
        await pilot.pause()
        assert lines(pilot.app)[0].strip() == "@" * 40
        pilot.app.theme = "textual-light"
        await pilot.pause()
        assert lines(pilot.app)[0].strip() == ""

    play(preview, scenario, size=(80, 20))


def test_the_hint_is_centred_and_wrapped(play: Play, lines: Lines) -> None:
    preview = Preview(mode="half", empty_text="p classifies a photo")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        assert lines(pilot.app)[4] == "p classifies a photo".center(40)
        preview.empty_text = "[bold]other\nlines"
        await pilot.resize_terminal(12, 4)
        assert [line.strip() for line in lines(pilot.app)] == ["", "[bold]other", "lines", ""]
        preview.empty_text = "a\x1b\u202eb " + "🦜" * 20
        await pilot.pause()
        assert all(char.isprintable() for line in lines(pilot.app) for char in line)
        assert [cell_len(line) for line in lines(pilot.app)] == [12] * 4

    play(preview, scenario, size=(40, 9))
