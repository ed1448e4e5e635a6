"""All answers of a folder query in one table: sort, filter, jump to one, write them to a file."""

import csv
import io
import json
from collections.abc import Mapping, Sequence

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import DataTable, Input, Static

from frn_tui.protocol import Answer
from frn_tui.query import best_score
from frn_tui.screens.dialogs import Dialog, Line
from frn_tui.text import display_name, percent

ORDERS = ("as asked", "class", "least sure", "least explained")


def verdict(answer: Answer, names: Mapping[int, str]) -> str:
    """What an answer says, in a word or two."""
    if "scores" not in answer:
        return "not readable"
    return "unknown" if answer.get("unknown") else names.get(answer["scores"][0]["id"], "?")


def margin(answer: Answer) -> float:
    """Probability of the likeliest class less that of the next."""
    shares = [score["probability"] for score in answer.get("scores", [])]
    return shares[0] - shares[1] if len(shares) > 1 else (1.0 if shares else -1.0)


def as_csv(answers: Sequence[Answer], names: Mapping[int, str], model: str) -> str:
    """The answers as CSV: one row per photo."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["image", "verdict", "label", "probability", "explained", "error", "reason", "model"])
    for answer in answers:
        path = answer["path"].encode(errors="surrogateescape").decode(errors="backslashreplace")
        told = ["", "", "", ""]
        if best := best_score(answer):
            numbers = best["probability"], best["explained"], best["error"]
            told = [names.get(best["id"], "?"), *(f"{number:.6f}" for number in numbers)]
        writer.writerow([path, verdict(answer, names), *told, answer.get("reason", ""), model])
    return text.getvalue()


def as_json(answers: Sequence[Answer], names: Mapping[int, str], model: str, threshold: float) -> str:
    """The answers as JSON lines with the fields of `frn classify --json`, and the model."""
    lines: list[dict[str, object]] = []
    for answer in answers:
        if "scores" not in answer:
            lines.append({"image": answer["path"], "error": answer.get("reason", "")})
            continue
        best = answer["scores"][0]
        lines.append(
            {
                "image": answer["path"],
                "label": names.get(best["id"], "?"),
                "probability": best["probability"],
                "probabilities": {names.get(s["id"], "?"): s["probability"] for s in answer["scores"]},
                "errors": {names.get(s["id"], "?"): s["error"] for s in answer["scores"]},
                "explained": best["explained"],
                "threshold": threshold,
                "unknown": answer.get("unknown", False),
                "model": model,
            }
        )
    return "".join(json.dumps(line) + "\n" for line in lines)


class Results(Dialog[int | str | None]):
    """Gives back the index of the answer to show, or "csv" or "json" to write them all."""

    BINDINGS = [
        Binding("escape", "leave", "Back"),
        Binding("s", "sort", "Sort"),
        Binding("slash", "filter", "Filter"),
        Binding("u", "unknown", "Unknown only"),
        Binding("c", "write('csv')", "Write CSV"),
        Binding("j", "write('json')", "Write JSON"),
    ]

    def __init__(self, answers: Sequence[Answer], names: Mapping[int, str], at: int) -> None:
        super().__init__()
        self.answers, self.names, self.at = answers, names, at
        self.parts = 2 if len({answer["path"].rpartition("/")[0] for answer in answers}) > 1 else 1
        """Of a path that are shown: with its folder, where there are several."""
        self.order = 0
        self.only_unknown = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="results") as box:
            box.border_subtitle = "esc back"
            yield Line(placeholder="filter by file or class")
            yield DataTable(cursor_type="row")
            yield Static(Text(self._hint()), classes="hint", id="results-hint")

    def _hint(self) -> str:
        return (
            f"order: {ORDERS[self.order]}   s: sort   /: filter   u: {'all' if self.only_unknown else 'unknown only'}"
            "   enter: show   c: CSV   j: JSON"
        )

    def begin(self) -> None:
        table: DataTable[Text] = self.query_one(DataTable)
        table.add_columns("photo", "verdict", "probability", "explained", "margin")
        self._show()
        table.move_cursor(row=self.at)
        table.focus()

    @on(Input.Changed)
    def narrow(self) -> None:
        self._show()

    @on(Input.Submitted)
    def narrowed(self) -> None:
        self.query_one(DataTable).focus()

    def _show(self) -> None:
        wanted = self.query_one(Input).value.casefold()
        table: DataTable[Text] = self.query_one(DataTable)
        table.clear()
        rows = [(i, answer) for i, answer in enumerate(self.answers) if self._fits(answer, wanted)]
        if ORDERS[self.order] == "class":
            rows.sort(key=lambda row: verdict(row[1], self.names))
        elif ORDERS[self.order] == "least sure":
            rows.sort(key=lambda row: margin(row[1]))
        elif ORDERS[self.order] == "least explained":
            rows.sort(key=lambda row: best["explained"] if (best := best_score(row[1])) else -1.0)
        for i, answer in rows:
            name = "/".join(answer["path"].split("/")[-self.parts :])
            cells = [display_name(name, 48), display_name(verdict(answer, self.names), 30), "", "", ""]
            if best := best_score(answer):
                cells[2:] = f"{best['probability']:.2f}", percent(best["explained"]), f"{margin(answer):.2f}"
            table.add_row(*map(Text, cells), key=str(i))
        self.query_one("#results").border_title = Text(f"Results: {len(rows)} of {len(self.answers)}")
        self.query_one("#results-hint", Static).update(Text(self._hint()))

    def _fits(self, answer: Answer, wanted: str) -> bool:
        if self.only_unknown and not answer.get("unknown"):
            return False
        return not wanted or wanted in answer["path"].casefold() or wanted in verdict(answer, self.names).casefold()

    @on(DataTable.RowSelected)
    def take(self, event: "DataTable.RowSelected") -> None:
        self.dismiss(int(event.row_key.value or 0))

    def action_sort(self) -> None:
        self.order = (self.order + 1) % len(ORDERS)
        self._show()

    def action_filter(self) -> None:
        self.query_one(Input).focus()

    def action_unknown(self) -> None:
        self.only_unknown = not self.only_unknown
        self._show()

    def action_write(self, kind: str) -> None:
        self.dismiss(kind)
