"""Pages to read: all keys, and the files that could not be used."""

from collections.abc import Callable, Sequence

from rich.table import Table
from rich.text import Text

from frn_tui.dialogs.dialogs import Page
from frn_tui.document.queries import Problem
from frn_tui.settings.keys import TABLE, shown
from frn_tui.terminal.text import count_of, display_name

SIGNS = [
    ("●●● ●●○ ●○○", "leave-one-out accuracy of a class: 90%, 70%, lower"),
    ("!  ≈", "does not fit its class; near copy of another photo"),
    ("◆  ●  ○", "an answer that you labelled; a seen answer; a new answer"),
]


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


def problems_page(problems: Sequence[Problem]) -> Page:
    """Return a page of each file with its reason."""
    lines = Text()
    # Number of latest problems listed
    for problem in problems[-500:]:
        lines.append(display_name(problem.path), style="bold")
        lines.append(f"\n  {display_name(problem.reason.removeprefix(f'{problem.path}: '))}\n")
    return Page(count_of(len(problems), "problem"), lines)
