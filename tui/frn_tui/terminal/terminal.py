"""Ask the terminal for its capabilities: whether it shows pixels, and how large its cells are.

It is asked once, after the first paint. The last question is the one that every terminal answers (DA1), so nobody waits
for an answer that does not come.
"""

import asyncio
import contextlib
import re
import struct
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from textual.message import Message

from frn_tui.terminal.modes import Mode

QUESTIONS = "\x1b[>0q\x1b[16t\x1b[c"
"""Query of the name, cell size and capabilities."""
TRUE_COLOUR = "\x1b[48:2:1:2:3m\x1bP$qm\x1b\\\x1b[0m"
"""Sets a colour of 16 million and asks for the style in force (DECRQSS): ssh does not hand COLORTERM on."""
MORE_COLOURS = "\x1b[?1;3;256S"
"""May a picture of Sixel have 256 colours? (An xterm that is asked to be a VT340 gives 16 unasked.)"""
_ANSWER = re.compile(
    r"\x1bP>\|(?P<name>[^\x1b]*)\x1b\\|\x1b\[6;(?P<high>\d+);(?P<wide>\d+)t|\x1b\[\?(?P<can>[\d;]*)c"
    r"|\x1b\[\?1;0;(?P<colours>\d+)S|\x1b\[\?1;[1-3](?:;[\d;]*)?S|(?P<pong>\x1b\[0n)"
    r"|\x1bP[01]\$r(?P<style>[^\x1b]*)\x1b\\"
)
_BEGUN = re.compile(r"\x1b(?:\[(?:\?[\d;]*|6[\d;]*|0)?|P(?:>(?:\|[^\x1b]*\x1b?)?|[01](?:\$(?:r[^\x1b]*\x1b?)?)?)?)$")
"""The beginning of an answer, at the end of what has come."""
SIXEL = "4"
"""Among the numbers of DA1."""


@dataclass
class Answered(Message):
    """The terminal has answered one of the questions."""

    name: str | None = None
    """What it calls itself."""
    cell: tuple[int, int] | None = None
    """Width and height of a cell in pixels."""
    can: tuple[str, ...] | None = None
    """Capabilities: the numbers of DA1, the last answer."""
    colours: int | None = None
    has_true_colour: bool = False
    """Whether it has kept a colour of 16 million."""
    pong: bool = False
    """Whether it says that it has taken all that came."""


class Answers:
    """Takes the terminal's answers out of what is typed: they would be taken for keys."""

    def __init__(self) -> None:
        self._begun = ""

    def taken(self, text: str) -> tuple[str, list[Answered]]:
        """Return the typed keys and the answers."""
        text, self._begun = self._begun + text, ""
        found = [_read(match) for match in _ANSWER.finditer(text)]
        text = _ANSWER.sub("", text)
        if match := _BEGUN.search(text):
            self._begun, text = match[0], text[: match.start()]
        return text, found


def _read(match: re.Match[str]) -> Answered:
    name, high, wide, can, colours, style, pong = match.group("name", "high", "wide", "can", "colours", "style", "pong")
    return Answered(
        name,
        (int(wide), int(high)) if wide else None,
        tuple(can.split(";")) if can is not None else None,
        int(colours) if colours else None,
        bool(re.search("48[:;]2[:;]+1[:;]2[:;]3", style or "")),
        bool(pong),
    )


def pixels_of(name: str, can: Iterable[str], *, in_tmux: bool) -> Mode | None:
    """How a terminal shows pixels that stay where the text is; None: not at all.

    tmux hands Kitty's protocol on where it may, with the text in its place. Sixel it would have to place itself, and it
    keeps 20 pictures at most.
    """
    if _has_placeholders(name):
        return "kitty"
    return "sixel" if SIXEL in can and not in_tmux else None


def _has_placeholders(name: str) -> bool:
    """Whether it knows placeholders: Ghostty, and Kitty from 0.28 on. Others that know Kitty's protocol do not."""
    if kitty := re.match(r"kitty\((\d+)\.(\d+)", name):
        return (int(kitty[1]), int(kitty[2])) >= (0, 28)
    return name.lower().startswith("ghostty")


async def beyond_tmux(environ: Mapping[str, str]) -> str:
    """The name of the terminal that tmux is in, where tmux hands on what is for it; empty otherwise."""
    asked = "#{client_termtype}", "#{client_termname}", "#{allow-passthrough}"
    command = "tmux", "display-message", "-p", "\n".join(asked)
    with contextlib.suppress(OSError):
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=dict(environ)
        )
        told = (await process.communicate())[0].decode(errors="replace").splitlines()
        if len(told) == len(asked) and told[2] in ("1", "on", "all"):
            return told[0] or told[1]
    return ""


def cell_size() -> tuple[int, int] | None:
    """Width and height of a cell in pixels, where the system knows them."""
    with contextlib.suppress(OSError, ValueError, AttributeError, ImportError):
        import fcntl
        import termios

        told = fcntl.ioctl(sys.__stdout__.fileno(), termios.TIOCGWINSZ, bytes(8))  # type: ignore[union-attr]
        rows, columns, width, height = struct.unpack("HHHH", told)
        if rows and columns and width >= columns and height >= rows:
            return width // columns, height // rows
    return None
