"""Making data sets: a module per benchmark says which image goes where, `writer` puts it there."""

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path

from frn.data.cache import Progress
from frn.data.prepare import cifar_fs, folder, omniglot
from frn.data.prepare.sources import Item
from frn.data.prepare.writer import write_items
from frn.errors import FrnError

Benchmark = Callable[[Sequence[Path]], list[Item]]

BENCHMARKS: dict[str, Benchmark] = {"cifar-fs": cifar_fs.items, "omniglot": omniglot.items}


def prepare(
    name: str,
    sources: Sequence[Path],
    out: Path,
    *,
    val: float = 0.2,
    test: float = 0.2,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, tuple[int, int]]:
    """Make a data set from archives or folders.

    Args:
        name: a benchmark's name, or "folder" for anything else.
        sources: official archives, zips of class folders, or folders of these.
        out: the data set's folder; what is already there and complete stays as it is.
        val: for "folder", the share of classes that become the validation split.
        test: for "folder", the share of classes that become the test split.
        seed: for "folder", which classes those are.
        progress: called with images done and in all.

    Returns:
        Classes and images of each split.

    Raises:
        FrnError: if the name is unknown, a source is not what it should be, or `out` cannot be written.
    """
    if name == "folder":
        items = folder.items(sources, val=val, test=test, seed=seed)
    elif name in BENCHMARKS:
        items = BENCHMARKS[name](sources)
    else:
        names = [*BENCHMARKS, "folder"]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(names)}."
        raise FrnError(f"unknown data set {name!r}. {hint}")
    return write_items(items, out, progress)
