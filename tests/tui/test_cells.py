import itertools
import random
import time

import pytest
from frn_tui.rgb import Rgb
from frn_tui.widgets import cells
from frn_tui.widgets.cells import Mode, decile, default_mode, draw, square
from rich.color import Color
from rich.style import Style

PLAIN = Style()


def pixel(picture: Rgb, x: int, y: int) -> tuple[int, int, int]:
    red, green, blue = picture.data[3 * (y * picture.width + x) :][:3]
    return red, green, blue


def noise(width: int, height: int, seed: int = 0) -> Rgb:
    return Rgb(width, height, random.Random(seed).randbytes(3 * width * height))


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
        ({}, "standard", "ascii"),
        ({}, "windows", "ascii"),
        ({}, None, "ascii"),
        ({"NO_COLOR": "1"}, "truecolor", "ascii"),
        ({"TERM": "dumb"}, "truecolor", "ascii"),
        ({"TERM": "xterm-256color"}, "256", "half"),
    ],
)
def test_the_mode_follows_from_what_the_terminal_says(
    environ: dict[str, str], color_system: str | None, mode: Mode
) -> None:
    assert default_mode(environ, color_system) == mode


def test_the_square_is_twice_as_many_columns_as_rows_and_fits() -> None:
    for columns, rows in itertools.product(range(12), repeat=2):
        wide, high = square(columns, rows)
        assert wide == 2 * high
        assert wide <= columns
        assert high <= rows
        assert wide + 2 > columns or high + 1 > rows


def test_half_blocks_show_every_pixel() -> None:
    picture = noise(8, 6)
    canvas = draw(picture, 8, 3, "half", PLAIN, dark=True)
    for y, line in enumerate(canvas):
        for x, (char, style) in enumerate(line):
            assert char == "▀"
            assert ink(style) == pixel(picture, x, 2 * y)
            assert ground(style) == pixel(picture, x, 2 * y + 1)


def shown(cell: cells.Cell) -> list[tuple[int, ...]]:
    """Colours of a quadrant cell's four parts."""
    bits = cells.QUADRANTS.index(cell[0])
    return [ink(cell[1]) if bits >> i & 1 else ground(cell[1]) for i in range(4)]


def test_quadrants_take_the_best_two_colours() -> None:
    def error(colours: list[tuple[float, ...]], pixels: list[tuple[int, int, int]]) -> float:
        return sum((a - b) ** 2 for c, p in zip(colours, pixels, strict=True) for a, b in zip(c, p, strict=True))

    for seed in range(200):
        picture = noise(2, 2, seed)
        pixels = [pixel(picture, x, y) for y in range(2) for x in range(2)]
        best = float("inf")
        for split in range(8):  # the others are these with ink and ground exchanged
            groups = [[p for i, p in enumerate(pixels) if split >> i & 1 == side] for side in (0, 1)]
            means = [tuple(sum(c) / len(group) for c in zip(*group, strict=True)) if group else () for group in groups]
            best = min(best, error([means[split >> i & 1] for i in range(4)], pixels))
        found = error(list(shown(draw(picture, 1, 1, "quad", PLAIN, dark=True)[0][0])), pixels)
        assert found <= best + 4 * 3 * 512  # the means are cut to whole numbers
        assert found <= best * 1.01 + 12


def test_quadrants_keep_two_colours_exactly() -> None:
    for bits in range(16):
        a, b = (250, 10, 20), (0, 90, 200)
        pixels = [a if bits >> i & 1 else b for i in range(4)]
        picture = Rgb(2, 2, bytes(itertools.chain.from_iterable(pixels)))
        assert shown(draw(picture, 1, 1, "quad", PLAIN, dark=True)[0][0]) == pixels


def test_ascii_is_dense_where_the_text_should_be_bright() -> None:
    picture = Rgb(3, 1, bytes([0, 0, 0, 128, 128, 128, 255, 255, 255]))
    on_dark = "".join(char for char, _ in draw(picture, 3, 1, "ascii", PLAIN, dark=True)[0])
    on_light = "".join(char for char, _ in draw(picture, 3, 1, "ascii", PLAIN, dark=False)[0])
    assert on_dark == " +@"
    assert on_light == "@= "


def test_a_flat_picture_draws_in_every_mode() -> None:
    flat = Rgb(4, 4, bytes(48))
    for mode in cells.PIXELS:
        assert len(draw(flat, 4, 2, mode, PLAIN, dark=True)) == 2


def test_deciles() -> None:
    assert [decile(v, 0.0, 1.0) for v in (-1.0, 0.0, 0.099, 0.1, 0.55, 0.999, 1.0, 7.0)] == list("00015999")
    assert decile(3.0, 3.0, 3.0) == "0"
    assert decile(float("nan"), 0.0, 1.0) == "?"


def test_segments_join_cells_of_one_style() -> None:
    other = Style(bold=True)
    joined = cells.segments([("a", PLAIN), ("b", PLAIN), ("c", other)])
    assert [segment.text for segment in joined] == ["ab", "c"]


def test_colours_are_as_rich_makes_them() -> None:
    style = draw(Rgb(1, 2, bytes([1, 2, 3, 254, 16, 0])), 1, 1, "half", PLAIN, dark=True)[0][0][1]
    assert style == Style(color="#010203", bgcolor="#fe1000")
    assert style.color == Color.from_rgb(1, 2, 3)


@pytest.mark.slow
def test_quadrants_of_a_large_picture_are_quick() -> None:
    """Compared with as many style objects made plainly, so that a busy machine does not matter."""
    picture = noise(160, 80)

    def spent(seed: int) -> float:
        fresh = noise(160, 80, seed)
        start = time.process_time()
        draw(fresh, 80, 40, "quad", PLAIN, dark=True)
        return time.process_time() - start

    def plain() -> float:
        start = time.process_time()
        for i in range(0, 80 * 40 * 6, 6):
            Style(color=f"rgb({picture.data[i]},{picture.data[i + 1]},{i % 256})", bgcolor=f"rgb({i % 255},1,2)")
        return time.process_time() - start

    assert min(spent(seed) for seed in (1, 2, 3)) < 2 * min(plain() for _ in range(3))
