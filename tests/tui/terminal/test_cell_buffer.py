"""Only changed cells are written, text before images."""

import itertools
import re
from time import monotonic

import pytest
from frn_tui.terminal.marks import WAITING
from frn_tui.terminal.wire.cell_app import LARGEST, SMALLEST, CellApp
from frn_tui.terminal.wire.cell_buffer import CellBuffer
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual._compositor import LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

PLAIN, PICTURE = Style(color="#ffffff"), Style(color="#102030", bgcolor="#405060")
EVERYTHING = 1 << 20


def update(*lines: str, y: int = 0, style: Style = PLAIN) -> LayoutUpdate:
    strips = [[Strip([Segment(line, style)])] for line in lines]
    return LayoutUpdate(strips, Region(0, y, len(lines[0]), len(lines)))  # type: ignore[arg-type]


def written(cells: CellBuffer, pictures: int = EVERYTHING) -> list[tuple[int, int, str]]:
    """Return row, column and text of each run."""
    text, _ = cells.written(ColorSystem.TRUECOLOR, pictures)
    runs = re.findall(r"\x1b\[(\d+);(\d+)H((?:(?!\x1b\[\d+;\d+H).)*)", text)
    return [(int(y), int(x), re.sub(r"\x1b\[[0-9;]*m", "", rest)) for y, x, rest in runs]


def test_only_cells_that_differ_are_written() -> None:
    cells = CellBuffer()
    cells.take(update("one two three", "four five six"), 13, 2)
    assert written(cells) == [(1, 1, "one two three"), (2, 1, "four five six")]
    cells.take(update("one two three", "four five six"), 13, 2)
    assert written(cells) == []
    cells.take(update("four nine six", y=1), 13, 2)
    assert written(cells) == [(2, 6, "nin")]
    assert not cells.is_stale
    cells.forget()
    assert written(cells) == [(1, 1, "one two three"), (2, 1, "four nine six")]


def test_changed_style_is_a_difference() -> None:
    cells = CellBuffer()
    cells.take(update("abc"), 3, 1)
    written(cells)
    cells.take(update("abc", style=Style(bold=True)), 3, 1)
    assert written(cells) == [(1, 1, "abc")]


def test_text_is_written_before_images() -> None:
    cells = CellBuffer()
    for y in range(3):
        cells.take(update("▀▀▀▀▀", y=y, style=PICTURE), 5, 4)
    cells.take(update("words", y=3), 5, 4)
    assert written(cells, 0) == [(4, 1, "words")]
    assert cells.is_stale
    assert written(cells, 1) == [(1, 1, "▀▀▀▀▀")]
    assert written(cells) == [(2, 1, "▀▀▀▀▀"), (3, 1, "▀▀▀▀▀")]
    assert not cells.is_stale


def test_wide_and_combining_characters_stay_within_their_cells() -> None:
    cells = CellBuffer()
    cells.take(update("漢字é x"), 7, 1)
    assert written(cells) == [(1, 1, "漢字é x")]
    cells.take(update("漢字é y"), 7, 1)
    assert written(cells) == [(1, 7, "y")]


def test_resized_screen_is_painted_completely() -> None:
    cells = CellBuffer()
    cells.take(update("abc"), 3, 1)
    written(cells)
    cells.take(update("abc"), 4, 1)
    assert written(cells)[0][:2] == (1, 1)


def test_every_cell_gets_its_own_style_whatever_style_is_before_it() -> None:
    styles = [
        Style(),
        Style(bold=True),
        Style(color="#102030"),
        Style(bgcolor="#405060"),
        Style(color="#102030", bgcolor="#405060"),
        Style(color="#102030", bgcolor="#405060", bold=True),
        Style(color="#112233", bgcolor="#405060"),
    ]
    pairs = list(itertools.chain(*itertools.permutations(styles, 2)))
    cells = CellBuffer()
    cells.take(
        LayoutUpdate([[Strip([Segment("x", style) for style in pairs])]], Region(0, 0, len(pairs), 1)), len(pairs), 1
    )
    text, _ = cells.written(ColorSystem.TRUECOLOR, EVERYTHING)
    shown, bold, colour, ground = [], False, "", ""
    for codes, char in re.findall(r"\x1b\[([0-9;]*)m|(x)", text):
        if char:
            shown.append((bold, colour, ground))
        for code in re.findall(r"[34]8;2;\d+;\d+;\d+|\d+", codes):
            if code == "0":
                bold, colour, ground = False, "", ""
            bold = bold or code == "1"
            colour = code if code.startswith("38") else colour
            ground = code if code.startswith("48") else ground
    assert shown == [
        (
            bool(style.bold),
            ";".join(style.color.get_ansi_codes()) if style.color else "",
            ";".join(style.bgcolor.get_ansi_codes(foreground=False)) if style.bgcolor else "",
        )
        for style in pairs
    ]


def test_only_the_colour_that_changes_is_written() -> None:
    cells = CellBuffer()
    strip = Strip([Segment("▀", Style(color=f"#10203{n}", bgcolor="#405060")) for n in range(4)])
    cells.take(LayoutUpdate([[strip]], Region(0, 0, 4, 1)), 4, 1)
    assert cells.written(ColorSystem.TRUECOLOR, EVERYTHING)[0].count("48;2;64;80;96") == 1


def test_a_style_is_written_once_for_all_places_that_have_it() -> None:
    cells = CellBuffer()
    style = Style(color="#102030", bgcolor="#405060")
    cells.take(update("one two", "one two", style=style), 7, 2)
    assert cells.written(ColorSystem.TRUECOLOR, EVERYTHING)[0].count("38;2;16;32;48") == 1


def test_a_place_that_waits_for_its_image_is_written_after_text() -> None:
    cells = CellBuffer()
    cells.take(update(WAITING * 5, "words"), 5, 2)
    assert written(cells, 0) == [(2, 1, "words")]
    cells.take(update("▀▀▀▀▀", style=PICTURE), 5, 2)
    assert written(cells) == [(1, 1, "▀▀▀▀▀")]


def answered(app: CellApp, seconds: float, sent: int) -> int:
    """Let the terminal take some seconds for some bytes of images; return how many may be sent next."""
    app._pinged, app._sent = monotonic() - seconds, sent
    app.hear_pong()
    return app._window


def test_a_slow_line_never_holds_more_images_than_it_carries_in_a_fraction_of_a_second() -> None:
    """Otherwise the answer to the next key would wait behind them."""
    app = CellApp()
    while answered(app, 0.01, app._window) < LARGEST // 2:
        pass
    assert answered(app, 3.5, 35_000) < 20_000
    for _ in range(10):  # 10 kB/s
        answered(app, app._window / 10_000, app._window)
    assert app._window <= 4 * SMALLEST


def test_a_far_terminal_on_a_fast_line_gets_images_at_full_speed() -> None:
    app = CellApp()
    assert [answered(app, 0.3, app._window) for _ in range(12)][-1] == LARGEST - 1


def test_a_terminal_that_answers_late_is_slow_rather_than_silent() -> None:
    app = CellApp()
    app._window, app._pinged = LARGEST, None  # counts as silent
    app.hear_pong()
    assert app._window == SMALLEST


@pytest.mark.parametrize(("colour", "number"), [("#242f38", 236), ("#0000ff", 21), ("#5f8787", 66), ("#ffffff", 231)])
def test_a_terminal_with_256_colours_gets_the_nearest_one(colour: str, number: int) -> None:
    cells = CellBuffer()
    cells.take(update("a", style=Style(bgcolor=colour)), 1, 1)
    assert f"48;5;{number}m" in cells.written(ColorSystem.EIGHT_BIT, EVERYTHING)[0]
