"""Names of classes: in one form of Unicode, and compared as people read them."""

import difflib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence


def normal(name: str) -> str:
    """Return a name in composed form (NFC): file systems and programs write `é` in two ways."""
    return unicodedata.normalize("NFC", name)


def loose(name: str) -> str:
    """Return what is left of a name without case, blanks, `_` and `-`."""
    return "".join(c for c in normal(name).casefold() if not c.isspace() and c not in "_-")


def match_names(given: Iterable[str], classes: Sequence[str]) -> tuple[Mapping[str, str], list[str]]:
    """Return the class of each given name, if it has one, and a sentence for each that is not called exactly so.

    A name is taken loosely if only one class is called so, and no other name is exactly that class's.
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
            notes.append(f"{name!r} is taken for the class {candidates[0]!r}")
        elif nearest := difflib.get_close_matches(loose(name), loosely, n=1):
            notes.append(f"{name!r} is not a class; the nearest name is {loosely[nearest[0]][0]!r}")
        else:
            notes.append(f"{name!r} is not a class")
    return found, notes
