"""Every table by its name."""

import difflib
from collections.abc import Sequence

from frn.errors import FrnError
from frn.reproduce.in_paper import IN_PAPER
from frn.reproduce.own import OUR_OWN
from frn.reproduce.rows import Row, Table

TABLES: dict[str, Table] = {table.name: table for table in (*IN_PAPER, *OUR_OWN)}


def find_table(name: str) -> Table:
    """Return a table by name; an FrnError names the nearest ones."""
    if name in TABLES:
        return TABLES[name]
    near = difflib.get_close_matches(name, TABLES, n=2, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(TABLES)}."
    raise FrnError(f"unknown table {name!r}. {hint}")


def choose_rows(table: Table, names: Sequence[str]) -> list[Row]:
    """The rows of these names; without any, all. FrnError if the table has no such row."""
    known = [row.name for row in table.rows]
    for name in names:
        if name not in known:
            raise FrnError(f"table {table.name!r} has no row {name!r}. It has: {', '.join(known) or 'none to train'}.")
    return [row for row in table.rows if not names or row.name in names]
