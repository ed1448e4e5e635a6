"""Names of files that are made from names of classes and photos."""

import itertools
import os
from collections.abc import Iterator


def safe_name(name: str) -> str:
    """A name that every file system takes."""
    text = name.encode(errors="replace").decode()
    safe = "".join(c if c.isprintable() and c not in '\\/:*?"<>|' else "_" for c in text)
    stem, ending = os.path.splitext(safe)  # noqa: PTH122
    return stem.encode()[:100].decode(errors="ignore").strip(" .") + ending.rstrip(" .") or "_"


def numbered(name: str) -> Iterator[str]:
    """The name, then the same with 2, 3 and so on before its ending."""
    stem, dot, ending = name.rpartition(".")
    stem, ending = (stem, dot + ending) if stem else (name, "")
    yield name
    for number in itertools.count(2):
        yield f"{stem}-{number}{ending}"


def fresh_name(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken; two that differ in case alone are one on some systems."""
    fresh = next(one for one in numbered(name) if one.casefold() not in taken)
    taken.add(fresh.casefold())
    return fresh
