"""Help page with every key of the table, grouped by task."""

from collections.abc import Callable

from rich.table import Table
from rich.text import Text

from frn_tui.settings.keys import TABLE, shown

SIGNS = [
    ("●●● ●●○ ●○○", "leave-one-out accuracy of a class: 90 %, 70 %, lower"),
    ("!  ≈", "does not fit its class; near copy of another photo"),
    ("◆  ●  ○", "an answer that you labelled; a seen answer; a new answer"),
]


def help_page(key_of: Callable[[str], str]) -> Table:
    """Return a table of the current keys."""
    lines: list[tuple[Text, Text]] = []
    group = ""
    for name, key in TABLE.items():
        if name.startswith("class-") and name != "class-1":
            continue
        if key.group != group:
            lines += [(Text(""), Text("")), (Text(""), Text(group := key.group, style="underline"))]
        keys = shown(key.keys) if key.group == "Fixed" else key_of(name)
        if name == "class-1" and [key_of(f"class-{n}") for n in range(1, 10)] == list("123456789"):
            keys = "1-9"
        lines.append((Text(keys, style="bold"), Text(key.meaning.replace("class 1", "class N"))))
    lines += [(Text(""), Text("")), *((Text(sign, style="bold"), Text(meaning)) for sign, meaning in SIGNS)]
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(max_width=9)
    table.add_column()
    for line in lines:
        table.add_row(*line)
    return table
