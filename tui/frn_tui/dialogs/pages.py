"""Pages to read: all keys, and the files that could not be used."""

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Input, Static

from frn_tui.dialogs.dialogs import Dialog, Line, Page
from frn_tui.document.queries import Problem
from frn_tui.settings.keys import TABLE, shown, shown_key
from frn_tui.terminal.text import count_of, display_name

SIGNS = [
    ("●●● ●●○ ●○○", "accuracy of a class by leave-one-out: at least 90%, 70%, lower"),
    ("!  ≈", "does not fit its class; near copy of another photo"),
    ("◆  ●  ○", "an answer that you labelled; a seen answer; a new answer"),
]
COLUMN = 44  # smallest width in cells of a column of keys


class _Search(Line):
    """Field for a search; the key that opened the page closes it."""

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return key != "question_mark" and super().check_consume_key(key, character)


class KeysPage(Dialog[None]):
    """Dialog with all keys, over the whole width; typing searches them."""

    BINDINGS = [
        Binding("escape,question_mark,f1,enter", "leave", "Back", priority=True),
        *(Binding(key, f"scroll('{key}')", show=False, priority=True) for key in ("up", "down", "pageup", "pagedown")),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="keys-page") as box:
            box.border_title, box.border_subtitle = "Keys", "esc back"
            yield _Search(placeholder="/ or type to search")
            with VerticalScroll(can_focus=False):
                yield Static(id="keys-table")

    def begin(self) -> None:
        self.show()

    @on(Input.Changed)
    def show(self) -> None:
        """Show the groups of keys in as many columns as fit, with only the keys that match the search."""
        wanted = self.query_one(Input).value.removeprefix("/").casefold()
        rows: list[tuple[str, str]] = []
        for group, keys, meaning in _rows():
            if wanted in f"{keys} {meaning}".casefold():
                rows += [("", group)] * (("", group) not in rows) + [(keys, meaning)]
        count = max((self.size.width - 6) // COLUMN, 1)
        each = -(-len(rows) // count)
        columns = []
        for first in range(0, len(rows), each or 1):
            column = Table(box=None, pad_edge=False, show_header=False)
            column.add_column(max_width=12)
            column.add_column()
            for keys, meaning in rows[first : first + each]:
                column.add_row(Text(keys, style="bold"), Text(meaning, style="" if keys else "underline"))
            columns.append(column)
        table = Table.grid(padding=(0, 2, 0, 0), expand=True)
        for _ in columns:
            table.add_column(ratio=1)
        table.add_row(*columns)
        self.query_one("#keys-table", Static).update(table if rows else Text("no key matches"))

    def on_resize(self, event: events.Resize) -> None:
        if self.begun:
            self.show()

    def action_scroll(self, key: str) -> None:
        """Scroll the keys; the letters go to the search."""
        scroll = self.query_one(VerticalScroll)
        scroll.scroll_relative(y={"up": -1, "down": 1, "pageup": -10, "pagedown": 10}[key], animate=False)


def _rows() -> Iterator[tuple[str, str, str]]:
    """Yield the group, the key and the meaning of each row."""
    for name, key in TABLE.items():
        if name.startswith("class-") and name != "class-1":
            continue
        keys = shown(key.keys) if key.group == "Fixed" else "1-9" if name == "class-1" else shown_key(name)
        yield key.group, keys, key.meaning.replace("class 1", "class N")
    for sign, meaning in SIGNS:
        yield "Signs", sign, meaning


def problems_page(problems: Sequence[Problem]) -> Page:
    """Return a page of each file with its reason."""
    lines = Text()
    for problem in problems[-500:]:  # number of latest problems listed
        lines.append(display_name(problem.path), style="bold")
        lines.append(f"\n  {display_name(problem.reason.removeprefix(f'{problem.path}: '))}\n")
    return Page(count_of(len(problems), "problem"), lines)
