"""Comma-separated values in the dialect of the csv module, with CR LF and without live formulas."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO

FORMULA = tuple("=+-@\t\r＝＋－＠")
"""First characters of text that spreadsheets evaluate."""


class CsvWriter:
    """Writes each row at once, for readers of a pipe, under a header of columns that are known in advance.

    `show` changes every name and value before it is written.
    """

    def __init__(
        self, file: IO[str], columns: Sequence[str], show: Callable[[object], object] = lambda value: value
    ) -> None:
        self._file, self._columns, self._show = file, columns, show
        self._writer = csv.writer(file, lineterminator="\r\n")
        self._writer.writerow([cell(show(column)) for column in columns])

    def write(self, row: Mapping[str, object]) -> None:
        """Write one row; missing columns stay empty."""
        self._writer.writerow([cell(self._show(row.get(column, ""))) for column in self._columns])
        self._file.flush()


def cell(value: object) -> object:
    """Return a value as a cell: text that a spreadsheet would evaluate gets a leading apostrophe, numbers do not."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return rows under a header as the text of a file."""
    text = io.StringIO(newline="")
    writer = CsvWriter(text, columns)
    for row in rows:
        writer.write(row)
    return text.getvalue()
