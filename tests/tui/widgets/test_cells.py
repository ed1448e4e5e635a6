import pytest
from frn_tui.terminal.modes import Mode, default_mode
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.widgets.cells import picture_line
from rich.color import Color
from rich.style import Style
from textual.geometry import Size

PLAIN = Style()


@pytest.mark.parametrize(
    ("environ", "color_system", "mode"),
    [
        ({}, "truecolor", "half"),
        ({}, "256", "half"),
        ({}, "standard", "half"),
        ({}, "windows", "half"),
        ({}, None, "none"),
        ({"NO_COLOR": "1"}, "truecolor", "half"),
        ({"TERM": "dumb"}, "truecolor", "none"),
        ({"TERM": "xterm-256color"}, "256", "half"),
    ],
)
def test_drawing_mode_follows_the_answer_from_the_terminal(
    environ: dict[str, str], color_system: str | None, mode: Mode
) -> None:
    assert default_mode(environ, color_system) == mode


def test_cell_has_its_colours() -> None:
    picture = Picture("half", 2, 1, bytes([1, 2, 3, 4, 5, 6, 7, 8, 9, 254, 16, 0]))
    _, left, right, _ = picture_line(picture, 0, Size(2, 1), PLAIN)
    assert (left.text, right.text) == ("▀", "▀")
    assert left.style == Style(color="#010203", bgcolor="#040506")
    assert right.style == Style(color="#070809", bgcolor="#fe1000")
    assert right.style.color == Color.from_rgb(7, 8, 9)


def test_an_image_is_centred_or_cropped_and_cells_of_the_same_style_are_joined() -> None:
    picture = Picture("half", 3, 2, bytes(36))
    lines = ["".join(text for text, _, _ in picture_line(picture, y, Size(6, 4), PLAIN)) for y in range(4)]
    assert lines == [" " * 6, " ▀▀▀  ", " ▀▀▀  ", " " * 6]
    assert [segment.text for segment in picture_line(picture, 0, Size(2, 1), PLAIN)] == ["", "▀▀", ""]
