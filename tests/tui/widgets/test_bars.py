import itertools
from collections.abc import Callable
from typing import Any

import pytest
from frn_tui.terminal.text import bar
from frn_tui.widgets.bars import BarRow, Bars
from rich.cells import cell_len
from textual.app import App
from textual.message import Message
from textual.pilot import Pilot

Play = Callable[..., Any]
Lines = Callable[[App[Any]], list[str]]
Told = list[Message]

BIRDS = [
    BarRow("blue jay", 0.87, 1),
    BarRow("starling", 0.08, 5),
    BarRow("a class without a key and with a long name", 0.05),
]


def many(count: int) -> list[BarRow]:
    return [BarRow(f"class {i}", 1 / count, i + 1 if i < 9 else None) for i in range(count)]


def chosen(told: Told) -> list[float]:
    return [message.value for message in told if isinstance(message, Bars.ThresholdChosen)]


def seen(lines: Lines, pilot: Pilot[None]) -> list[str]:
    return [line.rstrip() for line in lines(pilot.app)]


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0.0, "    "), (1.0, "████"), (0.5, "██  "), (1 / 32, "▏   "), (7 / 32, "▉   "), (9 / 32, "█▏  "), (2.0, "████")],
)
def test_bars_have_a_resolution_of_an_eighth_of_a_cell(share: float, drawn: str) -> None:
    assert bar(share, 4) == drawn


def test_bar_for_nan_is_empty() -> None:
    assert bar(float("nan"), 3) == "   "


async def test_answer_classes_and_gauge_are_shown(play: Play, lines: Lines) -> None:
    bars = Bars()
    pilot, _ = await play(bars, size=(48, 8))
    shown = [
        "▌ blue jay  0.87",
        "1 blue jay                 █████████████▉   0.87",
        "5 starling                 █▎               0.08",
        "  a class with…a long name ▊                0.05",
        "██████████████████████████████┆█▏───────────────",
        "67% known, unknown below 63%",
    ]
    for values, expected in (
        ((BIRDS, 0.67, 0.63, False), dict(enumerate(shown))),
        ((BIRDS, 0.67, 0.7, True), {0: "▌ unknown  (blue jay?)"}),
        (([BarRow("wren", 1.0)], 0.626, 0.634, True), {3: "62.6% known, unknown below 63.4%"}),
        ((BIRDS, None, 0.0, False), {5: "unknown photos need two photos of a class"}),
    ):
        bars.show(*values)
        await pilot.pause()
        text = seen(lines, pilot)
        assert {row: text[row] for row in expected} == expected


async def test_every_size_is_filled_exactly(play: Play, lines: Lines) -> None:
    bars = Bars()
    pilot, _ = await play(bars, size=(300, 1))
    for width, height in itertools.product((1, 3, 8, 20, 23, 33, 34, 80, 300), (1, 2, 3, 4, 12)):
        await pilot.resize_terminal(width, height)
        for rows in ([], [BarRow("🦜\x1b" * 30, 1.0)], BIRDS):
            bars.show(rows, 1.2 if len(rows) == 1 else 0.67, 0.5, unknown=True)
            await pilot.pause()
            assert [cell_len(line) for line in lines(pilot.app)] == [width] * height
        if width >= 20:
            assert "unknown" in lines(pilot.app)[0]
            assert height < 2 or any("< 50%" in line or "below 50%" in line for line in lines(pilot.app))
            assert height < 3 or "0.87" in lines(pilot.app)[1]


async def test_misfits_are_counted(play: Play, lines: Lines) -> None:
    bars = Bars()
    pilot, _ = await play(bars, size=(48, 7))
    bars.show(many(15), 0.5, 0.4, False)
    await pilot.pause()
    found = seen(lines, pilot)
    assert found[1].startswith("1 class 0")
    assert found[3].startswith("3 class 2")
    assert found[4] == "… and 12 more"
    assert found[6] == "50% known, unknown below 40%"
    await pilot.resize_terminal(48, 18)
    assert not any("more" in line for line in seen(lines, pilot))


async def test_control_characters_in_names_are_escaped(play: Play, lines: Lines) -> None:
    bars = Bars()

    names = ("\x1b[2J", "a\nb", "\u202eb", "[bold]", "\udcff")
    pilot, _ = await play(bars, size=(60, 10))
    bars.show([BarRow(name, 0.5) for name in names], 0.5, 0.5, True)
    await pilot.pause()
    text = lines(pilot.app)
    assert all(char.isprintable() for line in text for char in line)
    assert any("[bold]" in line for line in text)


async def test_a_click_sets_the_mark(play: Play) -> None:
    bars = Bars()
    pilot, told = await play(bars, size=(101, 8))
    bars.show(BIRDS, 0.67, 0.63, False)
    await pilot.pause()
    await pilot.click(bars, offset=(25, 4))
    await pilot.click(bars, offset=(10, 2))
    assert chosen(told) == [0.25]
