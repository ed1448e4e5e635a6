"""Class names: Unicode normalisation and tolerant comparison."""

import difflib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence


def normal(name: str) -> str:
    """Normalise a name to composed form (NFC): file systems and programs encode `é` in two ways."""
    return unicodedata.normalize("NFC", name)


def loose(name: str) -> str:
    """Remove case, blanks, `_` and `-` from a name."""
    return "".join(c for c in normal(name).casefold() if not c.isspace() and c not in "_-")


def match_names(given: Iterable[str], classes: Sequence[str]) -> tuple[Mapping[str, str], list[str]]:
    """Match given names to classes; return the class of each match, and a note on each inexact or missing one.

    An inexact match must be unique, and its class must not match another given name exactly.
    """
    exact = {normal(name): name for name in classes}
    names = list(dict.fromkeys(given))
    found = {name: exact[normal(name)] for name in names if normal(name) in exact}
    taken, notes = set(found.values()), []
    loosely: dict[str, list[str]] = {}
    for name in classes:
        loosely.setdefault(loose(name), []).append(name)
    for name in names:
        if name in found:
            continue
        candidates = loosely.get(loose(name), [])
        if len(candidates) == 1 and candidates[0] not in taken:
            found[name] = candidates[0]
            taken.add(candidates[0])
            notes.append(f"{name!r} is matched to the class {candidates[0]!r}")
        elif nearest := difflib.get_close_matches(loose(name), loosely, n=1):
            notes.append(f"{name!r} is not a class; the nearest name is {loosely[nearest[0]][0]!r}")
        else:
            notes.append(f"{name!r} is not a class")
    return found, notes
