import unicodedata

import pytest
from frn_tui.terminal.modes import CHARACTERS, Mode, default_mode
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.widgets import cells
from frn_tui.widgets.cells import draw
from rich.cells import cell_len
from rich.color import Color
from rich.style import Style

PLAIN = Style()


def ink(style: Style) -> tuple[int, ...]:
    assert style.color is not None
    assert style.color.triplet is not None
    return tuple(style.color.triplet)


def ground(style: Style) -> tuple[int, ...]:
    assert style.bgcolor is not None
    assert style.bgcolor.triplet is not None
    return tuple(style.bgcolor.triplet)


@pytest.mark.parametrize(
    ("environ", "color_system", "mode"),
    [
        ({}, "truecolor", "half"),
        ({}, "256", "half"),
        ({}, "standard", "half"),
        ({}, "windows", "half"),
        ({}, None, "ascii"),
        ({"NO_COLOR": "1"}, "truecolor", "half"),
        ({"TERM": "dumb"}, "truecolor", "ascii"),
        ({"TERM": "xterm-256color"}, "256", "half"),
    ],
)
def test_drawing_mode_follows_the_answer_from_the_terminal(
    environ: dict[str, str], color_system: str | None, mode: Mode
) -> None:
    assert default_mode(environ, color_system) == mode


def test_each_block_character_has_the_right_parts() -> None:
    """The names of sextants and quadrants list their parts, according to Unicode's data in Python."""
    for mode, count in (("quad", 16), ("sextant", 64)):
        assert len(set(CHARACTERS[mode])) == count  # type: ignore[index]
    assert (CHARACTERS["quad"][6], CHARACTERS["sextant"][3]) == ("▞", "🬂")
    for place, char in enumerate(CHARACTERS["sextant"]):
        name = unicodedata.name(char, "")
        if name.startswith("BLOCK SEXTANT-"):
            assert sum(1 << int(part) - 1 for part in name.removeprefix("BLOCK SEXTANT-")) == place
    assert all(cell_len(char) == 1 for characters in CHARACTERS.values() for char in characters)


def test_cell_has_its_character_and_colours() -> None:
    picture = Picture("quad", 2, 1, bytes([6, 1, 2, 3, 4, 5, 6, 9, 7, 8, 9, 10, 11, 12]))
    ((left, right),) = draw(picture, PLAIN, dark=True)
    assert (left[0], ink(left[1]), ground(left[1])) == ("▞", (1, 2, 3), (4, 5, 6))
    assert (right[0], ink(right[1]), ground(right[1])) == ("▚", (7, 8, 9), (10, 11, 12))


def test_ascii_is_denser_for_brighter_pixels() -> None:
    picture = Picture("ascii", 3, 1, b"\x00......\x05......\x09......")
    assert "".join(char for char, _ in draw(picture, PLAIN, dark=True)[0]) == " +@"
    assert "".join(char for char, _ in draw(picture, PLAIN, dark=False)[0]) == "@= "


def test_segments_join_cells_of_the_same_style() -> None:
    other = Style(bold=True)
    joined = cells.segments([("a", PLAIN), ("b", PLAIN), ("c", other)])
    assert [segment.text for segment in joined] == ["ab", "c"]


def test_colours_equal_those_from_rich() -> None:
    style = draw(Picture("half", 1, 1, bytes([1, 1, 2, 3, 254, 16, 0])), PLAIN, dark=True)[0][0][1]
    assert style == Style(color="#010203", bgcolor="#fe1000")
    assert style.color == Color.from_rgb(1, 2, 3)
