"""Query the terminal's capabilities: support for pixels, and the size of a cell.

The queries are sent once, after the first paint. Every terminal answers the last one (DA1), so nothing waits for
missing replies.
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

QUESTIONS = "\x1b[>0q\x1b[16t\x1b[c"  # queries of name, cell size and capabilities
TRUE_COLOUR = "\x1b[48:2:1:2:3m\x1bP$qm\x1b\\\x1b[0m"
"""Sets a true colour and queries the current style (DECRQSS), because ssh does not pass COLORTERM on."""
MORE_COLOURS = "\x1b[?1;3;256S"  # request for 256 Sixel colours; an xterm in VT340 mode otherwise gives 16
_ANSWER = re.compile(
    r"\x1bP>\|(?P<name>[^\x1b]*)\x1b\\|\x1b\[6;(?P<high>\d+);(?P<wide>\d+)t|\x1b\[\?(?P<can>[\d;]*)c"
    r"|\x1b\[\?1;0;(?P<colours>\d+)S|\x1b\[\?1;[1-3](?:;[\d;]*)?S|(?P<pong>\x1b\[0n)"
    r"|\x1bP[01]\$r(?P<style>[^\x1b]*)\x1b\\"
)
_BEGUN = re.compile(r"\x1b(?:\[(?:\?[\d;]*|6[\d;]*|0)?|P(?:>(?:\|[^\x1b]*\x1b?)?|[01](?:\$(?:r[^\x1b]*\x1b?)?)?)?)$")
"""Pattern of an incomplete reply at the end of the input."""


@dataclass
class Answered(Message):
    """The terminal has replied to a query."""

    name: str | None = None
    cell: tuple[int, int] | None = None  # width and height of a cell in pixels
    can: tuple[str, ...] | None = None  # capabilities: the numbers of DA1, the last reply
    colours: int | None = None
    has_true_colour: bool = False
    pong: bool = False  # whether the terminal confirms that it has processed all output


class Answers:
    """Separates the terminal's replies from typed keys."""

    def __init__(self) -> None:
        self._begun = ""

    def taken(self, text: str) -> tuple[str, list[Answered]]:
        """Return the typed keys and the replies."""
        text, self._begun = self._begun + text, ""
        answers = [_read(match) for match in _ANSWER.finditer(text)]
        text = _ANSWER.sub("", text)
        if match := _BEGUN.search(text):
            self._begun, text = match[0], text[: match.start()]
        return text, answers


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
    """Return how a terminal shows pixels that move with the text; None if it cannot.

    tmux passes the Kitty protocol on if allowed, as part of the text. It would have to place Sixel itself, and it keeps
    at most 20 images.
    """
    kitty = re.match(r"kitty\((\d+)\.(\d+)", name)  # other terminals with its protocol have no placeholders
    if name.lower().startswith("ghostty") or (kitty and (int(kitty[1]), int(kitty[2])) >= (0, 28)):
        return "kitty"
    return "sixel" if "4" in can and not in_tmux else None  # 4 stands for Sixel


async def beyond_tmux(environ: Mapping[str, str]) -> str:
    """Return the name of the terminal around tmux if tmux allows passthrough; otherwise empty."""
    questions = "#{client_termtype}", "#{client_termname}", "#{allow-passthrough}"
    command = "tmux", "display-message", "-p", "\n".join(questions)
    with contextlib.suppress(OSError):
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=dict(environ)
        )
        answers = (await process.communicate())[0].decode(errors="replace").splitlines()
        if len(answers) == len(questions) and answers[2] in ("1", "on", "all"):
            return answers[0] or answers[1]
    return ""


def cell_size() -> tuple[int, int] | None:
    """Return width and height of a cell in pixels, or None if the system does not know them."""
    with contextlib.suppress(OSError, ValueError, AttributeError, ImportError):
        import fcntl
        import termios

        size = fcntl.ioctl(sys.__stdout__.fileno(), termios.TIOCGWINSZ, bytes(8))  # type: ignore[union-attr]
        rows, columns, width, height = struct.unpack("HHHH", size)
        if rows and columns and width >= columns and height >= rows:
            return width // columns, height // rows
    return None
