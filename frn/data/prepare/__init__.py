"""Preparation of data sets: one module per benchmark assigns images to splits, `writer` writes them.

Images keep the size that the authors' preparation gives them. The authors' `val_pre` and `test_pre` folders, which are
resized again, are not needed: the evaluation transform gives the same pixels, and the cache keeps them.
"""

import difflib
from collections.abc import Sequence
from pathlib import Path

from frn.data.pixel_cache import Progress
from frn.data.prepare.benchmark import Benchmark, Counts, Plan
from frn.data.prepare.benchmarks import aircraft, cifar, cub, folder, inat, mini_imagenet, omniglot, tiered_imagenet
from frn.data.prepare.benchmarks.folder import SampledSplit
from frn.data.prepare.fetching import downloads, fetch
from frn.data.prepare.prepared import Record, count, hold, read_record, refuse_another
from frn.data.prepare.sources import Sources, fingerprint
from frn.data.prepare.writer import check_places, write_items
from frn.errors import FrnError

BENCHMARKS: dict[str, Benchmark] = {
    "cub-cropped": cub.CUB_CROPPED,
    "cub-raw": cub.CUB_RAW,
    "aircraft": aircraft.AIRCRAFT,
    "meta-inat": inat.META_INAT,
    "tiered-meta-inat": inat.TIERED_META_INAT,
    "mini-imagenet": mini_imagenet.MINI_IMAGENET,
    "tiered-imagenet": tiered_imagenet.TIERED_IMAGENET,
    "tiered-imagenet-224": tiered_imagenet.TIERED_IMAGENET_224,
    "cifar-fs": cifar.CIFAR_FS,
    "fc100": cifar.FC100,
    "omniglot": omniglot.OMNIGLOT,
}


def prepare(
    name: str,
    sources: Sequence[Path],
    out: Path,
    *,
    split: str | None = None,
    unofficial: bool = False,
    download: bool = False,
    sampled: SampledSplit | None = None,
    progress: Progress | None = None,
) -> dict[str, tuple[int, int]]:
    """Prepare a data set from archives or folders: a benchmark by name, or "folder" for your own photos.

    Args:
        name: name of a benchmark, or "folder".
        sources: archives as released, folders that contain them, or their unpacked contents.
        out: the data set's folder; complete files in it are kept.
        split: name of the class split if a benchmark has several; the first by default.
        unofficial: accept archives with different checksums, and different numbers of classes and images.
        download: first download the archives with torchvision to the only source, a folder.
        sampled: for "folder", the random split of the classes; by default, folder names define the splits if they can.
        progress: called with the finished and total MiB while archives are read, then with finished and total images.

    Returns:
        Classes and images of each split; `Record.skipped` lists the files skipped in a folder.

    Raises:
        FrnError: if the name is unknown, a source is unsuitable, or `out` cannot be written.
    """
    benchmark, options = _find(name, split, sampled or SampledSplit())
    record = known = read_record(out)
    refuse_another(record, name, options, out)
    if download:
        sources = _download(name, benchmark, sources)
    home = out.resolve()
    for source in sources:
        if source.resolve() == home:
            raise FrnError(f"{source}: is both --source and --out. Give another --out.")
    given = [fingerprint(source, home) for source in sources]
    if record and record.is_whole(given, out):
        return {part: (len(labels), sum(n for n, _ in labels.values())) for part, labels in record.holding.items()}
    record = Record(name, options, given, record.digests if record else {})
    tick = progress or (lambda done, total: None)
    with Sources(
        sources, benchmark.pattern, benchmark.checksums, unofficial, record.digests, tick, leave_out=home
    ) as opened:
        plan = benchmark.plan(opened, str(options.get("split", "")))
        counts = count(plan.items)
        if not unofficial:
            _compare(opened, name, counts, plan.official)
        check_places(plan.items, out, replace=known is not None)
        record.skipped, record.split_by = plan.skipped, plan.by
        record.differs = [
            f"{part} has {counts[part][1]:,} images, but the other release of {name} has {images:,}"
            for part, (_, images) in plan.alike.items()
            if images != counts.get(part, (0, 0))[1]
        ]
        record.write(out)
        # The authors ignore EXIF tags; your own photos are turned upright.
        write_items(plan.items, out, progress, upright=name == "folder")
    record.holding = hold(out, [*counts])
    record.write(out)
    return counts


def _find(name: str, split: str | None, sampled: SampledSplit) -> tuple[Benchmark, dict[str, object]]:
    if name == "folder":
        if split is not None:
            raise FrnError("your own folder has no named splits: use --val, --test and --seed")

        def plan(sources: Sources, _: str) -> Plan:
            return folder.plan(sources, sampled)

        return Benchmark(plan=plan, archives=r".*\.zip"), sampled.options
    if name not in BENCHMARKS:
        names = [*BENCHMARKS, "folder"]
        near = [known for known in names if known.startswith(name)] or difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"There are: {', '.join(names)}."
        raise FrnError(f"unknown data set {name!r}. {hint}")
    if sampled.asked_for:
        raise FrnError(f"--val, --test and --seed are for your own folder; {name} has a published split")
    benchmark = BENCHMARKS[name]
    split = split or benchmark.splits[0]
    if split not in benchmark.splits:
        raise FrnError(f"{name} has no class split {split!r}; it has: {', '.join(benchmark.splits)}")
    return benchmark, {"split": split}


def _download(name: str, benchmark: Benchmark, sources: Sequence[Path]) -> list[Path]:
    if not benchmark.downloads:
        can = ", ".join(key for key, value in BENCHMARKS.items() if value.downloads)
        archives = " or ".join(benchmark.checksums) or "it"
        raise FrnError(
            f"torchvision cannot download {name} (it can: {can}). Download {archives} yourself and pass it to --source."
        )
    if len(sources) != 1 or sources[0].is_file():
        raise FrnError("--download stores archives in a folder: pass that folder as the only --source")
    return fetch(downloads(benchmark.downloads), sources[0])


def _compare(sources: Sources, name: str, counts: dict[str, tuple[int, int]], official: Counts) -> None:
    """Compare the counts with the published ones."""
    totals = {**counts, "all": (sum(c for c, _ in counts.values()), sum(n for _, n in counts.values()))}
    for part, (classes, images) in official.items():
        found = totals.get(part, (0, 0))
        if found[0] != classes or (images is not None and found[1] != images):
            whose = "in all" if part == "all" else f"in {part}"
            published = f"{classes} classes" + ("" if images is None else f" and {images:,} images")
            raise FrnError(
                f"{sources}: {found[0]} classes and {found[1]:,} images {whose}, but {name} has {published}. Pass "
                "all of it, or accept it with --unofficial."
            )
