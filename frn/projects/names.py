"""Class names: Unicode normalisation, tolerant comparison and order."""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

SAME = str.maketrans({"ı": "i", "\u0307": None, "\ufe0e": None, "\ufe0f": None})
"""Both cases of the Turkish i, and the variation selectors of coloured emoji."""
DROPPED = frozenset({"Cc", "Cf", "Pd", "Pc", "Zs"})
"""Unicode categories of control and invisible characters, dashes, `_` and whitespace."""
NO_CLASS = frozenset({"unknown", "unknowns", "none", "noneofthese", "other", "others", "noclass"})
"""Loose names of a class for photos that belong to none of the classes, as other tools export it."""


def normal(name: str) -> str:
    """Normalise a name to composed form (NFC): file systems and programs encode `é` in two ways."""
    return unicodedata.normalize("NFC", name)


def loose(name: str) -> str:
    """Remove case, whitespace, dashes, `_`, invisible characters and trailing dots from a name."""
    folded = unicodedata.normalize("NFKC", name).casefold().translate(SAME).rstrip(". ")
    return "".join(c for c in folded if unicodedata.category(c) not in DROPPED)


def is_no_class(name: str) -> bool:
    """Return whether a class name says that its photos belong to none of the classes: `unknown`, `None`, `other`."""
    return loose(name) in NO_CLASS


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key for names in which photo 2 comes before photo 10."""
    parts = re.split(r"([0-9]+)", name.casefold())
    return [(0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part) for part in parts if part]


def by_loose_name(names: Iterable[str]) -> dict[str, list[str]]:
    """Return names by their loose form; those in one list differ only in what `loose` removes."""
    by_name: dict[str, list[str]] = {}
    for name in names:
        by_name.setdefault(loose(name), []).append(name)
    return by_name


def lookalikes(names: Iterable[str]) -> list[str]:
    """Return a note on each group of names that differ only in what `loose` removes."""
    groups = [" and ".join(map(repr, group)) for group in by_loose_name(names).values() if len(group) > 1]
    return [f"{group} are different classes, but their names look alike" for group in groups]


def match_names(labels: Iterable[str], classes: Sequence[str]) -> tuple[Mapping[str, str], list[str]]:
    """Match given names to classes; return the class of each match, and a note on each inexact or missing one.

    An inexact match must be unique, and its class must not match another given name exactly.
    """
    exact = {normal(name): name for name in classes}
    names = list(dict.fromkeys(labels))
    matches = {name: exact[normal(name)] for name in names if normal(name) in exact}
    taken, notes = set(matches.values()), []
    loosely = by_loose_name(classes)
    for name in names:
        if name in matches:
            continue
        candidates = loosely.get(loose(name), [])
        if len(candidates) == 1 and candidates[0] not in taken:
            matches[name] = candidates[0]
            taken.add(candidates[0])
            notes.append(f"{name!r} is matched to the class {candidates[0]!r}")
        elif nearest := difflib.get_close_matches(loose(name), loosely, n=1):
            notes.append(f"{name!r} is not a class; the nearest name is {loosely[nearest[0]][0]!r}")
        else:
            notes.append(f"{name!r} is not a class")
    return matches, notes
