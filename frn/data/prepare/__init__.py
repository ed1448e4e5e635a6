"""Preparation of data sets: `published` and `folder` assign images to splits, `writer` writes them.

Images keep the size that the authors' preparation gives them. The authors' `val_pre` and `test_pre` folders, which are
resized again, are not needed: the evaluation transform gives the same pixels, and the cache keeps them.
"""

import difflib
import json
from collections.abc import Sequence
from pathlib import Path

from frn.data.pixel_cache import Progress
from frn.data.prepare.benchmark import Benchmark, Counts
from frn.data.prepare.folder import plan_own
from frn.data.prepare.published import BENCHMARKS
from frn.data.prepare.sources import Sources
from frn.data.prepare.writer import count, require_distinct, write_items
from frn.errors import FrnError
from frn.system.file_sets import new_folder, require_new_folder

RECORD = "prepared.json"
"""Record of a data set in its folder: how it was made, and `skipped`, the files that are not images, with reasons."""


def prepare(
    name: str,
    sources: Sequence[Path],
    out: Path,
    *,
    split: str | None = None,
    unofficial: bool = False,
    val: float | None = None,
    test: float | None = None,
    progress: Progress | None = None,
) -> dict[str, tuple[int, int]]:
    """Prepare a data set from archives or folders: a benchmark by name, or "folder" for your own photos.

    Args:
        name: name of a benchmark, or "folder".
        sources: archives as released, folders that contain them, or their unpacked contents.
        out: the data set's folder, which appears complete or not at all.
        split: name of the class split if a benchmark has several; the first by default.
        unofficial: accept archives with different checksums, and different numbers of classes and images.
        val: for "folder", the fraction of the classes in a random validation split; by default, folder names define the
            splits if they can.
        test: the same for test.
        progress: called with the finished and total MiB while archives are read, then with finished and total images.

    Returns:
        Classes and images of each split.

    Raises FrnError if the name is unknown, a source is unsuitable, or `out` exists or cannot be written.
    """
    benchmark, options = _find(name, split, val, test)
    require_new_folder(out)
    tick = progress or (lambda done, total: None)
    with Sources(sources, benchmark.pattern, benchmark.checksums, unofficial, tick) as opened:
        plan = benchmark.plan(opened, str(options.get("split", "")))
        counts = count(plan.items)
        if not unofficial:
            _compare(opened, name, counts, plan.official)
        require_distinct(plan.items)
        record = {"benchmark": name, "options": options, "sources": [str(source.resolve()) for source in sources]}
        record |= {"skipped": plan.skipped, "split_by": plan.by}
        with new_folder(out) as home:
            write_items(plan.items, home, progress, upright=name == "folder")  # the authors ignore EXIF tags
            (home / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return counts


def _find(name: str, split: str | None, val: float | None, test: float | None) -> tuple[Benchmark, dict[str, object]]:
    if name == "folder":
        if split is not None:
            raise FrnError("your own folder has no named splits: use --val and --test")
        from_folder = Benchmark(plan=lambda opened, _: plan_own(opened, val, test), archives=r".*\.zip")
        return from_folder, {"val": val, "test": test}
    if name not in BENCHMARKS:
        names = [*BENCHMARKS, "folder"]
        near = [known for known in names if known.startswith(name)] or difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"There are: {', '.join(names)}."
        raise FrnError(f"unknown data set {name!r}. {hint}")
    if (val, test) != (None, None):
        raise FrnError(f"--val and --test are for your own folder; {name} has a published split")
    benchmark = BENCHMARKS[name]
    split = split or benchmark.splits[0]
    if split not in benchmark.splits:
        raise FrnError(f"{name} has no class split {split!r}; it has: {', '.join(benchmark.splits)}")
    return benchmark, {"split": split}


def _compare(sources: Sources, name: str, counts: dict[str, tuple[int, int]], official: Counts) -> None:
    totals = {**counts, "all": (sum(c for c, _ in counts.values()), sum(n for _, n in counts.values()))}
    for part, (classes, images) in official.items():
        counted = totals.get(part, (0, 0))
        if counted[0] != classes or (images is not None and counted[1] != images):
            whose = "in all" if part == "all" else f"in {part}"
            published = f"{classes} classes" + ("" if images is None else f" and {images:,} images")
            raise FrnError(
                f"{sources}: {counted[0]} classes and {counted[1]:,} images {whose}, but {name} has {published}. Pass "
                "all of it, or accept it with --unofficial."
            )
