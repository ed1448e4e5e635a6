"""Draw a terminal screen as SVG: small, reproducible, and without seams in its images.

An SVG in an `<img>` cannot load a web font, so text uses any available monospace font and is stretched to its cells.
Block and line characters, which must touch their neighbours, are drawn as shapes instead.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

WIDTH, HEIGHT = 9, 18
"""Width and height of a cell. Height of half a cell, which is a square and shows one pixel of an image."""
NO_BREAK = "\u00a0"  # written for a blank, because some browsers draw repeated blanks as one
FONT = "ui-monospace, 'DejaVu Sans Mono', 'Cascadia Mono', Menlo, Consolas, monospace"
INK, GROUND = "#e0e0e0", "#121212"
"""Default colours of a cell."""

Box = tuple[float, float, float, float]  # a rectangle: x, y, width and height, in fractions of a cell

BLOCKS: dict[str, list[Box]] = {
    **{char: [(0, 1 - n / 8, 1, n / 8)] for n, char in enumerate("▁▂▃▄▅▆▇█", 1)},
    **{char: [(0, 0, n / 8, 1)] for n, char in enumerate("▏▎▍▌▋▊▉", 1)},
    "▀": [(0, 0, 1, 0.5)],
    "▔": [(0, 0, 1, 1 / 8)],
    "▐": [(0.5, 0, 0.5, 1)],
    "▕": [(7 / 8, 0, 1 / 8, 1)],
}
LINES = {
    "─": (0, 9, "h9"),
    "│": (4.5, 0, "v18"),
    "┆": (4.5, 1, "v4m0 2v4m0 2v4"),
    "╭": (4.5, 18, "v-4.5q0-4.5 4.5-4.5"),
    "╮": (4.5, 18, "v-4.5q0-4.5-4.5-4.5"),
    "╰": (4.5, 0, "v4.5q0 4.5 4.5 4.5"),
    "╯": (4.5, 0, "v4.5q0 4.5-4.5 4.5"),
}
"""Line characters as strokes: where they start within a cell, and their path."""


def draw(lines: Sequence[Iterable[Segment]], width: int, label: str) -> str:
    """Return the screen as an SVG document.

    Args:
        lines: lines of the screen, from the top.
        width: width of the screen in cells.
        label: description for people who cannot see the image.
    """
    grounds: dict[str, list[str]] = defaultdict(list)
    blocks: dict[str, list[str]] = defaultdict(list)  # blocks are drawn over the backgrounds
    strokes: dict[str, list[str]] = defaultdict(list)
    texts: list[str] = []
    for y, line in enumerate(lines):
        x = 0
        for text, style in _runs(line):
            ink, ground = _colours(style)
            cells = cell_len(text)
            _box(grounds[ground], x, y, 0, 0, cells, 1)
            for shape, run in groupby(text, key=lambda char: char if char in BLOCKS or char in LINES else ""):
                part = "".join(run)
                if shape in BLOCKS:
                    for left, top, across, down in BLOCKS[shape]:
                        step = len(part) if across == 1 else 1
                        for i in range(0, len(part), step):
                            _box(blocks[ink], x + i, y, left, top, across * step, down)
                elif shape in LINES:
                    left, top, path = LINES[shape]
                    places = (f"M{_short((x + i) * WIDTH + left)} {_short(y * HEIGHT + top)}" for i in range(len(part)))
                    strokes[ink] += [place + path for place in places]
                elif part.strip():
                    texts.append(_text(part, x, y, ink, style))
                x += cell_len(part)
    wide, high = width * WIDTH, len(lines) * HEIGHT
    grounds.pop(GROUND, None)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
            f'role="img" aria-label="{escape(label)}">',
            f'<rect width="{wide}" height="{high}" fill="{GROUND}"/>',
            '<g shape-rendering="crispEdges">',
            *(
                f'<path fill="{colour}" d="{"".join(paths)}"/>'
                for layer in (grounds, blocks)
                for colour, paths in layer.items()
            ),
            "</g>",
            '<g fill="none">',
            *(f'<path stroke="{colour}" d="{"".join(paths)}"/>' for colour, paths in strokes.items()),
            "</g>",
            f'<g font-family="{FONT}" font-size="15" style="white-space: pre">',
            *texts,
            "</g>",
            "</svg>\n",
        ]
    )


def _runs(line: Iterable[Segment]) -> Iterable[tuple[str, Style]]:
    """Join neighbouring pieces of text that have the same style."""
    segments = [(segment.text, segment.style or Style.null()) for segment in line]
    for style, run in groupby(segments, key=lambda segment: segment[1].without_color + _only_colours(segment[1])):
        yield "".join(text for text, _ in run), style


def _only_colours(style: Style) -> Style:
    return Style.from_color(style.color, style.bgcolor)


def _colours(style: Style) -> tuple[str, str]:
    ink, ground = _hex(style.color, INK), _hex(style.bgcolor, GROUND)
    return (ground, ink) if style.reverse else (ink, ground)


def _hex(colour: Color | None, otherwise: str) -> str:
    return otherwise if colour is None or colour.is_default else colour.get_truecolor().hex


def _box(path: list[str], x: int, y: int, left: float, top: float, across: float, down: float) -> None:
    wide = _short(across * WIDTH)
    path.append(f"M{_short((x + left) * WIDTH)} {_short((y + top) * HEIGHT)}h{wide}v{_short(down * HEIGHT)}h-{wide}z")


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _text(text: str, x: int, y: int, ink: str, style: Style) -> str:
    blank = len(text) - len(text.lstrip())
    text = text.strip()
    looks = [' font-weight="bold"'] * bool(style.bold) + [' font-style="italic"'] * bool(style.italic)
    looks += [' text-decoration="underline"'] * bool(style.underline)
    return (
        f'<text x="{(x + blank) * WIDTH}" y="{y * HEIGHT + 14}" textLength="{cell_len(text) * WIDTH}" fill="{ink}"'
        f"{''.join(looks)}>{escape(text, quote=False).replace(' ', NO_BREAK)}</text>"
    )
