"""Names of files that are made from names of classes and photos."""

import os


def safe_name(name: str) -> str:
    """A name that every file system takes."""
    text = name.encode(errors="replace").decode()
    safe = "".join(c if c.isprintable() and c not in '\\/:*?"<>|' else "_" for c in text)
    stem, ending = os.path.splitext(safe)  # noqa: PTH122
    return stem.encode()[:100].decode(errors="ignore").strip(" .") + ending.rstrip(" .") or "_"


def fresh_name(name: str, taken: set[str]) -> str:
    """The name, with a number where it is taken; two that differ in case alone are one on some systems."""
    stem, dot, ending = name.rpartition(".")
    stem, ending = (stem, dot + ending) if stem else (name, "")
    number, fresh = 1, name
    while fresh.casefold() in taken:
        number += 1
        fresh = f"{stem}-{number}{ending}"
    taken.add(fresh.casefold())
    return fresh
