"""Bars, the list of classes and the job line."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from frn_tui.terminal.text import bar
from frn_tui.widgets import jobs
from frn_tui.widgets.bars import BarRow, Bars
from frn_tui.widgets.jobs import JobLine, duration
from frn_tui.widgets.lists import ClassList, ClassRow
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


CLASSES = [
    ClassRow(4, 1, "blue jay", 12, 0.95),
    ClassRow(7, 2, "house sparrow with a long name", 31, 0.7),
    ClassRow(9, 3, "wren", 2, 0.2, "too few photos"),
    ClassRow(11, 4, "robin", 1),
]


def rows(count: int) -> list[ClassRow]:
    return [ClassRow(i, i + 1, f"class {i}", i, 0.8) for i in range(count)]


async def test_each_class_has_a_line_that_can_be_clicked(play: Play, lines: Lines) -> None:
    classes = ClassList()
    pilot, _ = await play(classes, size=(26, 12))

    async def shown(rows: list[ClassRow]) -> list[str]:
        classes.show(rows)
        await pilot.pause()
        return lines(pilot.app)

    assert (await shown(CLASSES))[:5] == [
        "1 blue jay         12 ●●● ",
        "2 house s…ng name  31 ●●○ ",
        "3 wren              2 ●○○!",
        "4 robin             1     ",
        " " * 26,
    ]
    await pilot.click(classes, offset=(5, 2))
    assert classes.chosen_id == 9
    text = await shown(rows(11))
    assert text[8].startswith("9 class 8")
    assert text[9].startswith("  class 9")  # only the first nine have keys
    assert text[9].endswith("●●○ ")
    names = ["\x1b[2J", "a\nb", "\u202eb", "[bold red]x[/]", "\udcff", "[@click=app.quit]x"]
    await pilot.resize_terminal(40, 12)
    text = await shown([ClassRow(i, i + 1, name, 1) for i, name in enumerate(names)])
    assert all(char.isprintable() for line in text for char in line)
    assert "[bold red]x[/]" in text[3]
    assert "[@click=app.quit]x" in text[5]
    await shown([*CLASSES, ClassRow(99, 5, "🦜" * 50, 123456, 1.0, "!")])
    for width in (1, 4, 10, 18, 26, 100):
        await pilot.resize_terminal(width, 4)
        await pilot.resize_terminal(width, 10)
        assert {len(line) for line in lines(pilot.app)[:4]} == {width}
        if width >= 10:
            assert lines(pilot.app)[0].startswith("1 blu")


async def test_the_highlight_stays_with_its_class(play: Play) -> None:
    classes = ClassList()
    pilot, _ = await play(classes, size=(26, 10))
    classes.focus()
    classes.show(CLASSES)
    await pilot.pause()
    assert classes.chosen_id == 4
    await pilot.press("down", "down")
    assert classes.chosen_id == 9
    classes.show(CLASSES[::-1])
    await pilot.pause()
    assert classes.chosen_id == 9
    assert classes.highlighted == 1
    classes.show([ClassRow(9, 1, "renamed", 3)])
    await pilot.pause()
    assert classes.chosen_id == 9
    classes.show([row for row in CLASSES if row.id != 9])
    await pilot.pause()
    assert classes.chosen_id == 4
    classes.show([])
    await pilot.pause()
    assert not classes.option_count
    classes.show(CLASSES)
    await pilot.pause()
    assert classes.chosen_id == 4


async def test_updating_counts_does_not_scroll_the_list(play: Play) -> None:
    classes = ClassList()
    pilot, _ = await play(classes, size=(26, 10))
    classes.show(rows(100))
    await pilot.pause()
    classes.scroll_to(y=40, animate=False)
    classes.highlighted = 45
    await pilot.pause()
    classes.show([ClassRow(row.id, row.number, row.name, row.images + 1, row.quality) for row in rows(100)])
    await pilot.pause()
    assert classes.scroll_offset.y == 40
    assert classes.chosen_id == 45


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light", "ansi-dark", "ansi-light"])
async def test_the_highlight_shows_without_colours(
    play: Play, digest: Lines, monkeypatch: pytest.MonkeyPatch, theme: str
) -> None:
    if "ansi" not in theme:  # without colours, Textual would draw these black on black
        monkeypatch.setenv("NO_COLOR", "1")
    classes = ClassList()
    pilot, _ = await play(classes, size=(26, 10), theme=theme)
    classes.show(CLASSES)
    for focused in (classes, None):
        pilot.app.set_focus(focused)
        await pilot.pause()
        highlighted, other, *_ = digest(pilot.app)
        assert highlighted != other


async def test_progress_is_shown_in_words_and_as_a_bar(play: Play, lines: Lines) -> None:
    job = JobLine()
    pilot, _ = await play(job, size=(80, 3))
    job.show("Embedding wren", 23, 31, 1.9)
    await pilot.pause()
    assert lines(pilot.app)[0].rstrip() == " Embedding wren  ████████▉───  23/31 74%  1.9 s left  esc: cancel"
    job.clear()
    await pilot.pause()
    assert not lines(pilot.app)[0].strip()


async def test_a_message_appears_on_the_right_and_disappears(
    play: Play, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JobLine()
    pilot, _ = await play(job, size=(100, 3))
    job.show("Embedding", 1, 2)
    job.say("undo: added 9 images to wren")
    await pilot.pause()
    line = lines(pilot.app)[0]
    assert line.startswith(" Embedding  ██████──────  1/2 50%  esc: cancel ")
    assert line.endswith(" undo: added 9 images to wren ")
    job.clear()
    await pilot.pause()
    assert lines(pilot.app)[0].startswith(" undo: added 9 images to wren ")
    monkeypatch.setattr(jobs, "PASSING", 0.01)
    job.say("redone")
    for _ in range(100):
        await pilot.pause(0.02)
        if not lines(pilot.app)[0].strip():
            return
    raise AssertionError("it does not pass")


async def test_job_line_fits_every_width(play: Play, lines: Lines) -> None:
    job = JobLine()
    pilot, _ = await play(job, size=(200, 2))
    job.say("saved /some/where/very/deep/birds.frn.json")
    job.show("Embedding a class with a really long name \x1b[2J 🦜", 23, 31, 1.9)
    for width in (1, 2, 10, 20, 40, 60, 80, 200):
        await pilot.resize_terminal(width, 2)
        line = lines(pilot.app)[0]
        assert all(char.isprintable() for char in line)
        assert len(line) <= width
        assert ("23/31" in line) >= (width >= 20)


def test_durations_have_a_suitable_unit() -> None:
    assert [duration(s) for s in (-1, 0, 1.94, 9.97, 45.4, 89, 100, 3600, 7200)] == [
        "0.0 s",
        "0.0 s",
        "1.9 s",
        "10 s",
        "45 s",
        "89 s",
        "2 min",
        "60 min",
        "2.0 h",
    ]
