"""The table in the hide-and-test dialog."""

from frn_tui.client.protocol import Confusion
from frn_tui.dialogs.confusion import confusion_table
from rich.cells import cell_len


def test_columns_align_with_their_numbers_for_any_names() -> None:
    count = 101
    names = {number: f"鳥{number}" if number % 2 else f"bird {number}" for number in range(count)}
    counts = [[int(row == column) * 7 for column in range(count)] for row in range(count)]
    found: Confusion = {"ids": list(range(count)), "counts": counts, "accuracy": 1.0, "interval": (0.9, 1.0)}
    _, _, _, _, header, *rows = confusion_table(found, names, 1).plain.rstrip().split("\n")
    assert {cell_len(row) for row in rows} == {cell_len(header)}
    for row in (9, 50, 100):
        end = header.index(f" {row + 1}") + len(f" {row + 1}")
        assert cell_len(rows[row][: rows[row].rindex("7") + 1]) == end
