"""A simulated terminal screen. The app writes only changed cells, so its raw output rarely contains whole words."""

import re

from rich.cells import get_character_cell_size

_TOKEN = re.compile(
    r"\x1b\[(?P<codes>[0-9;:?<>=]*)[ -/]*(?P<command>[@-~])"
    r"|\x1b[\]P_X^].*?(?:\x1b\\|\x07)|\x1b[()#][0-9A-Za-z]|\x1b[^\[\]P_X^()#]|(?P<text>[^\x1b]+)",
    re.DOTALL,
)


class Screen:
    """The characters on the screen, and the lines that changed since they were last asked for."""

    def __init__(self, columns: int, rows: int) -> None:
        self._lines = [[" "] * columns for _ in range(rows)]
        self._rest = b""
        self._x = self._y = 0
        self.touched: set[int] = set()

    def feed(self, output: bytes) -> None:
        """Process output from a program; an incomplete escape sequence is kept until the rest arrives."""
        text = (self._rest + output).decode(errors="surrogateescape")
        end = 0
        for match in _TOKEN.finditer(text):
            if match.start() != end:
                break
            end = match.end()
            if match["text"] is not None:
                self._write(match["text"])
            elif match["command"] == "H":
                row, _, column = match["codes"].partition(";")
                self._y, self._x = int(row or 1) - 1, int(column or 1) - 1
            elif match["command"] == "J":
                self._lines = [[" "] * len(line) for line in self._lines]
        self._rest = text[end:].encode(errors="surrogateescape")

    def new_text(self) -> str:
        """Return the lines that have changed."""
        return "\n".join("".join(self._lines[y]).rstrip() for y in sorted(self.touched))

    def _write(self, text: str) -> None:
        for char in text:
            if char == "\n":
                self._x, self._y = 0, self._y + 1
            elif char == "\r":
                self._x = 0
            elif char >= " " and self._y < len(self._lines):
                width, line = get_character_cell_size(char), self._lines[self._y]
                if width and self._x < len(line):
                    line[self._x : self._x + width] = [char, *[""] * (width - 1)]
                    self.touched.add(self._y)
                self._x += width
