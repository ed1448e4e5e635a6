"""Fuzzy search by a few letters of a name."""

from collections.abc import Iterable, Sequence

from frn_tui.client.file_requests import Entry


def narrowed(entries: Iterable[Entry], wanted: str) -> list[Entry]:
    """Return entries whose names contain the letters in this order; names that start with them come first."""
    letters = wanted.casefold()
    ranked: list[list[Entry]] = [[], [], []]
    for entry in entries:
        name = entry["name"].casefold()
        at = name.find(letters)
        if at >= 0:
            ranked[0 if at == 0 else 1].append(entry)
        elif _has_in_order(name, letters):
            ranked[2].append(entry)
    return [entry for some in ranked for entry in some]


def _has_in_order(name: str, letters: Sequence[str]) -> bool:
    rest = iter(name)
    return all(letter in rest for letter in letters)
