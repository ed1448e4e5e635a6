"""File names derived from names of classes and photos."""

import itertools
import os
from collections.abc import Iterator


def safe_name(name: str) -> str:
    """Return a name that is valid on every file system."""
    text = name.encode(errors="replace").decode()
    safe = "".join(c if c.isprintable() and c not in '\\/:*?"<>|' else "_" for c in text)
    stem, ending = os.path.splitext(safe)  # noqa: PTH122
    return stem.encode()[:100].decode(errors="ignore").strip(" .") + ending.rstrip(" .") or "_"


def numbered(name: str) -> Iterator[str]:
    """Yield the name, then the name with 2, 3 and so on before its suffix."""
    stem, dot, ending = name.rpartition(".")
    stem, ending = (stem, dot + ending) if stem else (name, "")
    yield name
    for number in itertools.count(2):
        yield f"{stem}-{number}{ending}"


def fresh_name(name: str, taken: set[str]) -> str:
    """Return the name, with a number if it is taken; names that differ only in case count as equal."""
    fresh = next(one for one in numbered(name) if one.casefold() not in taken)
    taken.add(fresh.casefold())
    return fresh
