from collections.abc import Callable
from typing import Any

import pytest
from frn_tui.rgb import Rgb
from frn_tui.widgets.cells import Mode
from frn_tui.widgets.preview import Preview
from rich.cells import cell_len
from rich.style import Style
from textual.app import App
from textual.message import Message
from textual.pilot import Pilot

Play = Callable[..., None]
Lines = Callable[[App[Any]], list[str]]
Styles = Callable[[App[Any]], list[list[Style]]]

SIZES = [(80, 24), (140, 40), (40, 12), (20, 5), (3, 1), (1, 1), (300, 80)]
MODES: list[Mode] = ["half", "quad", "ascii", "none"]


def hot_spot(side: int, x: int, y: int) -> Rgb:
    """Black, and red in one of 5 x 5 parts."""
    part = side // 5
    data = bytearray(3 * side * side)
    for row in range(y * part, (y + 1) * part):
        for column in range(x * part, (x + 1) * part):
            data[3 * (row * side + column)] = 255
    return Rgb(side, side, bytes(data))


def wanted(told: list[Message]) -> list[tuple[int, int]]:
    return [(message.width, message.height) for message in told if isinstance(message, Preview.Wanted)]


@pytest.mark.parametrize("size", SIZES)
def test_every_mode_fills_every_size(play: Play, lines: Lines, size: tuple[int, int]) -> None:
    preview = Preview(mode="half", empty_text="Nothing to see yet")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        for mode in MODES:
            preview.mode = mode
            for picture, grid in ((None, None), (hot_spot(20, 1, 3), None), (hot_spot(20, 1, 3), [[0.0, 1.0]])):
                preview.show(picture)
                preview.show_numbers(grid)
                await pilot.pause()
                seen = lines(pilot.app)
                assert [len(line) for line in seen] == [size[0]] * size[1]

    play(preview, scenario, size=size)


@pytest.mark.parametrize(
    ("mode", "size", "pixels"),
    [
        ("half", (80, 24), (48, 48)),
        ("quad", (80, 24), (96, 48)),
        ("ascii", (80, 24), (48, 24)),
        ("half", (31, 40), (30, 30)),
        ("quad", (31, 40), (60, 30)),
        ("ascii", (31, 40), (30, 15)),
    ],
)
def test_it_asks_for_the_largest_square(play: Play, mode: Mode, size: tuple[int, int], pixels: tuple[int, int]) -> None:
    preview = Preview(mode=mode)

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        assert preview.pixel_size == pixels
        assert wanted(told) == [pixels]

    play(preview, scenario, size=size)


def test_it_asks_again_only_when_the_size_it_wants_changes(play: Play) -> None:
    preview = Preview(mode="half")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        await pilot.resize_terminal(90, 24)
        assert wanted(told) == [(48, 48)]
        await pilot.resize_terminal(90, 30)
        assert wanted(told) == [(48, 48), (60, 60)]
        preview.mode = "quad"
        preview.mode = "ascii"
        await pilot.pause()
        assert wanted(told) == [(48, 48), (60, 60), (60, 30)]
        preview.mode = "none"
        await pilot.pause()
        assert len(wanted(told)) == 3

    play(preview, scenario)


@pytest.mark.parametrize("mode", ["half", "quad"])
@pytest.mark.parametrize("side", [10, 40, 200])
def test_the_hot_part_is_where_it_belongs(play: Play, styles: Styles, mode: Mode, side: int) -> None:
    preview = Preview(mode=mode)

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        preview.show(hot_spot(side, 1, 3))
        await pilot.pause()
        seen = styles(pilot.app)
        left = (80 - 40) // 2  # 40 x 20 cells in 80 x 20
        hot = {
            (x, y)
            for y, line in enumerate(seen)
            for x, style in enumerate(line)
            if style.color and style.color.triplet and style.color.triplet == (255, 0, 0)
        }
        assert hot == {(left + 8 + x, 12 + y) for x in range(8) for y in range(4)}

    play(preview, scenario, size=(80, 20))


def test_the_hot_part_is_dense_in_ascii(play: Play, lines: Lines) -> None:
    preview = Preview(mode="ascii")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        preview.show(hot_spot(20, 4, 0))
        await pilot.pause()
        seen = lines(pilot.app)
        assert [line.strip() for line in seen[:4]] == ["@@@@@@@@"] * 4
        assert seen[0].index("@") == 20 + 32
        assert not "".join(seen[4:]).strip()

    play(preview, scenario, size=(80, 20))


@pytest.mark.parametrize("mode", MODES)
def test_numbers_stand_at_the_centre_of_their_parts(play: Play, lines: Lines, mode: Mode) -> None:
    preview = Preview(mode=mode)
    grid = [[5.0 * i + j for j in range(5)] for i in range(5)]

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        preview.show(Rgb(1, 1, bytes(3)))
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
def test_numbers_contrast_with_the_picture(
    play: Play, styles: Styles, mode: Mode, grey: int, digit: tuple[int, int, int]
) -> None:
    preview = Preview(mode=mode)

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        preview.show(Rgb(1, 1, bytes([grey] * 3)))
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
    """A segment without a style ends the app there."""
    monkeypatch.setenv("NO_COLOR", "1")
    preview = Preview(mode="ascii")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        for mode in MODES:
            preview.mode = mode
            for picture in (None, hot_spot(20, 2, 2)):
                preview.show(picture)
                preview.show_numbers([[1.0, 2.0]] if picture else None)
                await pilot.pause()
                assert len(lines(pilot.app)) == 24

    play(preview, scenario, theme=theme)


def test_a_change_of_theme_turns_ascii_around(play: Play, lines: Lines) -> None:
    preview = Preview(mode="ascii")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        preview.show(hot_spot(20, 0, 0))
        await pilot.pause()
        assert lines(pilot.app)[0].strip() == "@" * 8
        pilot.app.theme = "textual-light"
        await pilot.pause()
        assert lines(pilot.app)[0].strip() == "@" * 32

    play(preview, scenario, size=(80, 20))


def test_the_hint_is_centred_and_wrapped(play: Play, lines: Lines) -> None:
    preview = Preview(mode="half", empty_text="p asks about a photo")

    async def scenario(pilot: Pilot[None], told: list[Message]) -> None:
        assert lines(pilot.app)[4] == "p asks about a photo".center(40)
        preview.empty_text = "[bold]other\nlines"
        await pilot.resize_terminal(12, 4)
        assert [line.strip() for line in lines(pilot.app)] == ["", "[bold]other", "lines", ""]
        preview.empty_text = "a\x1b\u202eb " + "🦜" * 20
        await pilot.pause()
        assert all(char.isprintable() for line in lines(pilot.app) for char in line)
        assert [cell_len(line) for line in lines(pilot.app)] == [12] * 4

    play(preview, scenario, size=(40, 9))
