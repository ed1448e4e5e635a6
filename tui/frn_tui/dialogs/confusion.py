"""Confusion between the classes as a text table."""

from collections.abc import Mapping

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from frn_tui.client.protocol import Confusion
from frn_tui.terminal.text import count_of, display_name, percent

WIDEST = 24
"""Largest width of a name in cells."""


def confusion_table(found: Confusion, names: Mapping[int, str], shot: int) -> Text:
    """Return a table with true classes as rows and predicted ones as columns."""
    rows = [(names.get(class_id, "?"), counts) for class_id, counts in zip(found["ids"], found["counts"], strict=True)]
    room = max(len(str(count)) for count in (len(rows), *(count for _, counts in rows for count in counts)))
    width = min(max([cell_len(display_name(name)) for name, _ in rows] + [4]), WIDEST)
    digits = max(len(str(len(rows))), 2)
    (low, high), asked = found["interval"], sum(map(sum, found["counts"]))
    table = Text(no_wrap=True)
    table.append(
        f"{percent(found['accuracy'], 1)} right with {shot} example{'s' * (shot > 1)} per class\n"
        f"{percent(low)} to {percent(high)}; one split, {count_of(asked, 'hidden photo')}\n",
        style="bold",
    )
    table.append("rows: true class, columns: predicted class\n\n")
    table.append(" " * (digits + 1 + width) + "".join(f" {n:>{room}}" for n in range(1, len(rows) + 1)) + "\n")
    for n, (name, counts) in enumerate(rows, 1):
        table.append(f"{n:>{digits}} {set_cell_size(display_name(name, WIDEST), width)}")
        for column, count in enumerate(counts, 1):
            table.append(f" {count or '·':>{room}}", style="bold" if column == n else "")
        table.append("\n")
    return table
