"""Comma-separated values in the dialect of the csv module, with CR LF and without live formulas."""

import csv
import io
from collections.abc import Iterable

FORMULA = tuple("=+-@\t\r＝＋－＠")  # first characters of text that spreadsheets evaluate


def cell(value: object) -> object:
    """Return a value as a cell: text that a spreadsheet would evaluate gets a leading apostrophe, numbers do not."""
    return f"'{value}" if isinstance(value, str) and value.lstrip("'").startswith(FORMULA) else value


def text_in(cell: str) -> str:
    """Return the text of a cell that was written by `cell`."""
    return cell[1:] if cell[:1] == "'" and cell.lstrip("'").startswith(FORMULA) else cell


def csv_row(values: Iterable[object]) -> str:
    """Return a row of a CSV; a spreadsheet computes none of its cells."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerow(map(cell, values))
    return text.getvalue()
