"""The screen behind a dialogue, dimmed. Textual mixes the colours of each cell again at every paint; here once."""

from collections.abc import Iterable
from functools import lru_cache

from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.renderables.background_screen import BackgroundScreen

from frn_tui.terminal.marks import PLACEHOLDER

CACHED_COLORS = 4096
"""Colours, and styles of two; a screen full of pictures has about as many."""


class Backdrop(BackgroundScreen):
    """Looks as Textual's own."""

    @classmethod
    def process_segments(cls, segments: Iterable[Segment], color: Color) -> Iterable[Segment]:
        none = Style.null()
        return (
            segment if segment.control else Segment(_text(segment.text), _dimmed(segment.style or none, color))
            for segment in segments
        )


def _text(text: str) -> str:
    """Without placeholders: in another colour they would stand for another picture."""
    return " " * cell_len(text) if PLACEHOLDER in text else text


def dimmed(shown: RenderableType) -> RenderableType:
    """What a modal screen renders, with this backdrop."""
    return Backdrop(shown.screen, shown.color) if isinstance(shown, BackgroundScreen) else shown


@lru_cache(CACHED_COLORS)
def _dimmed(style: Style, tint: Color) -> Style:
    plain = style.clear_meta_and_links()
    ink, ground = (None if color is None else _mixed(color, tint) for color in (plain.color, plain.bgcolor))
    return plain + Style.from_color(ink, ground)


@lru_cache(CACHED_COLORS)
def _mixed(color: RichColor, tint: Color) -> RichColor:
    return (Color.from_rich_color(color) + tint).rich_color
