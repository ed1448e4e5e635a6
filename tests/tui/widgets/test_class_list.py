from collections.abc import Callable
from typing import Any

import pytest
from frn_tui.widgets.lists import ClassList, ClassRow
from textual.app import App

Play = Callable[..., Any]
Lines = Callable[[App[Any]], list[str]]

BIRDS = [
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

    assert (await shown(BIRDS))[:5] == [
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
    await shown([*BIRDS, ClassRow(99, 5, "🦜" * 50, 123456, 1.0, "!")])
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
    classes.show(BIRDS)
    await pilot.pause()
    assert classes.chosen_id == 4
    await pilot.press("down", "down")
    assert classes.chosen_id == 9
    classes.show(BIRDS[::-1])
    await pilot.pause()
    assert classes.chosen_id == 9
    assert classes.highlighted == 1
    classes.show([ClassRow(9, 1, "renamed", 3)])
    await pilot.pause()
    assert classes.chosen_id == 9
    classes.show([row for row in BIRDS if row.id != 9])
    await pilot.pause()
    assert classes.chosen_id == 4
    classes.show([])
    await pilot.pause()
    assert not classes.option_count
    classes.show(BIRDS)
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
    classes.show(BIRDS)
    for focused in (classes, None):
        pilot.app.set_focus(focused)
        await pilot.pause()
        highlighted, other, *_ = digest(pilot.app)
        assert highlighted != other
