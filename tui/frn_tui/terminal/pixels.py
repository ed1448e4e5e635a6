"""Images as pixels: placeholders in the text, and the images that the terminal stores for them.

In the Kitty protocol (https://sw.kovidgoyal.net/kitty/graphics-protocol/#unicode-placeholders) a character stands for a
cell of an image: its marks give the row and column, its colour the image. So an image is laid out, scrolled, covered
and redrawn like text. Sixel has no placeholders; `frn_tui.terminal.sixel` replaces each run of placeholders by its
pixels when the text is written.
"""

import os
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import count
from typing import Any
from weakref import WeakValueDictionary, finalize

from rich.color import Color, ColorType
from rich.color_triplet import ColorTriplet
from rich.style import Style

from frn_tui.terminal.marks import MARKS, PLACEHOLDER, PLACES
from frn_tui.terminal.modes import PIXELS, Mode, Palette
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.terminal.sixel import Rows, translated

MAX_CELLS = len(MARKS)  # maximum number of columns or rows of an image
FIRST_COLOUR, COLOURS, BLOCKS = 16, 240, 254
"""Image numbers: a colour beyond the terminal's own 16, which tmux passes on unchanged, and a third mark."""
CHUNK = 4096  # characters of image data per command
IN_PAGE = "FRN_PAGE" in os.environ  # whether the terminal is the page of `frn-tui --web`
HIDDEN = Style(conceal=IN_PAGE or None)
"""Conceals placeholders in the page, which draws images over them; wider characters would show at the edges."""
_numbers = count(os.getpid() * 977)  # so that two apps in one terminal use different numbers


def next_number() -> int:
    """Return an image number not used for the last 60,000 images."""
    return next(_numbers) % (COLOURS * BLOCKS)


def _split(number: int) -> tuple[int, int]:
    return FIRST_COLOUR + number % COLOURS, 1 + number // COLOURS


def placeholders(picture: Picture, y: int, base: Style) -> list[tuple[str, Style]]:
    colour, block = _split(picture.number)
    style = base + Style.from_color(_indexed(colour)) + HIDDEN
    return [(char, style) for char in _row(y, picture.columns, block)]


@lru_cache(COLOURS)
def _indexed(number: int) -> Color:
    """Return a colour of the terminal's table; its triplet keeps Textual from making it one of 16 million."""
    return Color(f"color({number})", ColorType.EIGHT_BIT, number, ColorTriplet(0, 0, 0))


@lru_cache(1024)
def _row(y: int, columns: int, block: int) -> list[str]:
    return [PLACEHOLDER + MARKS[y] + MARKS[x] + MARKS[block] for x in range(columns)]


class Graphics:
    """Graphics of the terminal: its capabilities and stored images."""

    def __init__(self, write: Callable[[str], object] = lambda data: None) -> None:
        """Send commands to the terminal by `write`."""
        self._write = write
        self.mode: Mode | None = None  # mode in which the terminal shows pixels; None if it is not known to
        self.plain: Mode = "half"  # mode without pixels that suits the terminal
        self.cell = 10, 20  # width and height of a cell in pixels
        self.colours = 256  # number of colours of a Sixel image
        self.palette: Palette = ""  # colours of an image made of characters
        self.in_page = IN_PAGE
        self.in_tmux = "TMUX" in os.environ and not IN_PAGE
        self._pictures: WeakValueDictionary[int, Picture] = WeakValueDictionary()
        self._sixels: dict[int, Rows] = {}
        self._gone: list[int] = []  # numbers of images that are no longer in use

    def mode_of(self, images: str) -> Mode:
        if images != "auto":
            return images  # type: ignore[return-value]
        return self.mode or self.plain

    def wanted(self, mode: Mode) -> dict[str, Any]:
        """Return further arguments of a request to the engine in this mode."""
        if mode not in PIXELS:
            return {"palette": self.palette} if mode == "half" else {}
        return {"cell": list(self.cell), "colours": self.colours}

    def send(self, picture: Picture | None) -> None:
        """Send an image to the terminal before its placeholders, and delete unused ones."""
        if picture is None or not picture.data or picture.number in self._pictures:
            return
        self._pictures[picture.number] = picture
        finalize(picture, self._forget, picture.number).atexit = False
        if picture.mode == "sixel":
            self._sixels[picture.number] = picture.sixels
        else:
            self._write(self._taken(self._gone) + self._given(picture))
        self._gone.clear()

    def _forget(self, number: int) -> None:
        self._sixels.pop(number, None)
        self._gone.append(number)

    def send_again(self) -> None:
        """Send all images again after the terminal was left and entered again."""
        for picture in list(self._pictures.values()):
            if picture.mode == "kitty":
                self._write(self._given(picture))

    def farewell(self) -> str:
        """Return the commands that delete all images."""
        return self._taken([*self._gone, *(number for number, some in self._pictures.items() if some.mode == "kitty")])

    def _taken(self, numbers: Iterable[int]) -> str:
        if self.in_page:
            return "".join(f"\x1b]{PAGE_COMMAND};{_kitty_id(number)}\x1b\\" for number in numbers)
        return "".join(self._wrapped(f"a=d,d=I,i={_kitty_id(number)},q=2") for number in numbers)

    def _given(self, picture: Picture) -> str:
        (width, height), number, data = picture.pixels, _kitty_id(picture.number), picture.data
        if self.in_page:
            return f"\x1b]{PAGE_COMMAND};{number};{picture.columns};{picture.rows};{width};{height};{data}\x1b\\"
        about = f"a=T,U=1,q=2,f=24,o=z,i={number},s={width},v={height},c={picture.columns},r={picture.rows}"
        chunks = [data[first : first + CHUNK] for first in range(0, len(data), CHUNK)]
        return "".join(
            self._wrapped(f"{about},m=1" if place == 0 else "m=1", chunk) for place, chunk in enumerate(chunks)
        ) + self._wrapped("m=0")

    def _wrapped(self, keys: str, data: str = "") -> str:
        command = f"\x1b_G{keys};{data}\x1b\\" if data else f"\x1b_G{keys}\x1b\\"
        if self.in_tmux:  # which passes it on to its terminal
            return "\x1bPtmux;" + command.replace("\x1b", "\x1b\x1b") + "\x1b\\"
        return command

    def translated(self, text: str) -> str:
        """Return the text for the terminal, with Sixel in place of placeholders."""
        if self.mode != "sixel" or PLACEHOLDER not in text:
            return text
        return translated(text, self._rows)

    def _rows(self, colour: int, block: str) -> Rows | None:
        return self._sixels.get(colour - FIRST_COLOUR + COLOURS * (PLACES[block] - 1))


PAGE_COMMAND = 8117  # OSC command of the page of `frn-tui --web`, unused by terminals


def _kitty_id(number: int) -> int:
    colour, block = _split(number)
    return block << 24 | colour


NOTHING = Graphics()


def graphics_of(app: object) -> Graphics:
    """Return the app's graphics, or inactive ones if it has none."""
    graphics = getattr(app, "graphics", NOTHING)
    assert isinstance(graphics, Graphics)
    return graphics
