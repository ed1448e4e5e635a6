"""Pages to read: all keys, the confusion between the classes, and the files that could not be used."""

from collections.abc import Callable, Mapping, Sequence

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from frn_tui.client.protocol import Confusion
from frn_tui.dialogs.dialogs import Page
from frn_tui.document.queries import Problem
from frn_tui.settings.keys import TABLE, shown
from frn_tui.terminal.text import count_of, display_name, percent

SIGNS = [
    ("●●● ●●○ ●○○", "leave-one-out accuracy of a class: 90%, 70%, lower"),
    ("!  ≈", "does not fit its class; near copy of another photo"),
    ("◆  ●  ○", "an answer that you labelled; a seen answer; a new answer"),
]
WIDEST = 24
"""Largest width of a name in cells in the confusion table."""
MAX_PROBLEMS = 500
"""Number of latest problems listed."""


def help_page(key_of: Callable[[str], str]) -> Table:
    """Return a table of the current keys."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(max_width=9)
    table.add_column()
    group = ""
    for name, key in TABLE.items():
        if name.startswith("class-") and name != "class-1":
            continue
        if key.group != group:
            table.add_row()
            table.add_row("", Text(group := key.group, style="underline"))
        keys = shown(key.keys) if key.group == "Fixed" else key_of(name)
        if name == "class-1" and [key_of(f"class-{n}") for n in range(1, 10)] == list("123456789"):
            keys = "1-9"
        table.add_row(Text(keys, style="bold"), Text(key.meaning.replace("class 1", "class N")))
    table.add_row()
    for sign, meaning in SIGNS:
        table.add_row(Text(sign, style="bold"), meaning)
    return table


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


def problems_page(problems: Sequence[Problem]) -> Page:
    """Return a page of each file with its reason."""
    lines = Text()
    for problem in problems[-MAX_PROBLEMS:]:
        lines.append(display_name(problem.path), style="bold")
        lines.append(f"\n  {display_name(problem.reason.removeprefix(f'{problem.path}: '))}\n")
    return Page(count_of(len(problems), "problem"), lines)
