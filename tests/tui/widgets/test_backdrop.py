"""The dimmed screen behind a dialogue."""

import pytest
from frn_tui.widgets.backdrop import Backdrop, dimmed
from rich.segment import ControlType, Segment
from rich.style import Style
from textual.color import Color
from textual.renderables.background_screen import BackgroundScreen

SEGMENTS = [
    Segment("a", Style.parse("bold #102030 on #405060")),
    Segment("b", Style.parse("#ff0000")),
    Segment("c", Style.parse("underline") + Style(link="file:///x", meta={"@click": "quit"})),
    Segment("d", None),
    Segment("", None, [(ControlType.HOME,)]),
]


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_it_looks_as_textuals_own(alpha: float) -> None:
    tint = Color(18, 18, 18, alpha)
    expected = [(s.text, s.style or Style(), s.control) for s in BackgroundScreen.process_segments(SEGMENTS, tint)]
    found = [(s.text, s.style or Style(), s.control) for s in Backdrop.process_segments(SEGMENTS, tint)]
    assert found == expected


def test_what_is_no_backdrop_stays_as_it_is() -> None:
    assert dimmed("text") == "text"
