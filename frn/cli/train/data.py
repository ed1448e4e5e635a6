"""`frn data`: prepare and check data sets."""

from pathlib import Path
from typing import Annotated

import typer

from frn.cli.shell import options
from frn.cli.shell.console import note, print_json, printable, progress_bar, report_skipped, stdout
from frn.errors import FrnError

ClassShare = Annotated[
    float | None,
    typer.Option(
        min=0, max=0.9, help="folder: fraction of the classes in this split.", show_default="by folder names, or 0.2"
    ),
]
app = typer.Typer(no_args_is_help=True, help="Prepare data sets and check them.")


@app.command()
def prepare(
    name: Annotated[str, typer.Argument(help="Name of the data set, listed above.")],
    source: Annotated[list[Path], typer.Option(help="Archive, or folder of archives or images. Repeatable.")],
    out: Annotated[Path, typer.Option(help="New folder, with train/, val/ and test/.")],
    split: Annotated[str | None, typer.Option(help="Name of a published class split.")] = None,
    unofficial: Annotated[
        bool, typer.Option("--unofficial", help="Accept checksums and counts that are not as published.")
    ] = False,
    val: ClassShare = None,
    test: ClassShare = None,
) -> None:
    """Prepare a data set: train/, val/ and test/ with one folder per class.

    Data sets: cub-cropped, cub-raw, aircraft, meta-inat, tiered-meta-inat, mini-imagenet, tiered-imagenet,
    tiered-imagenet-224, cifar-fs, or folder (your own photos).

    Splits: tang, chen or all for cub. If your own folder has subfolders with names such as train and val, they
    become the splits. --val and --test draw a random class split instead.

    The command compares checksums and counts with the published ones and never changes the source. The data set
    appears complete or not at all.
    """
    from frn.data.prepare import RECORD
    from frn.data.prepare import prepare as prepare_data
    from frn.system.files import read_json

    with progress_bar(f"preparing {name}") as progress:
        counts = prepare_data(
            name, source, out, split=split, unofficial=unofficial, val=val, test=test, progress=progress
        )
    for part, (classes, images) in counts.items():
        stdout().print(f"{part:5}  {classes:4} classes  {images:6} images  {printable(str(out / part))}")
    record = read_json(out / RECORD)
    if record["split_by"]:
        note(f"split {record['split_by']}")
    report_skipped(record["skipped"], all_of_them=f"{out / RECORD} lists them all")


@app.command()
def check(
    data: Annotated[Path, typer.Argument(help="Data set, or a folder with one folder per class.")],
    as_json: options.AsJson = False,
) -> None:
    """Check a data set: decode every image, and report counts, broken files, small classes and near copies.

    The exit status is 1 if a file is broken, a class is in several splits, or a class has fewer than 2 images.
    """
    from msgspec import to_builtins

    from frn.data.check import check_splits
    from frn.data.folders import find_splits, shared_classes, unused_folders

    if not data.is_dir():
        raise FrnError(f"{data}: no such folder")
    named = list(find_splits(data).values())
    splits = named or [data]
    with progress_bar(f"checking {data.name}") as progress:
        reports = check_splits(splits, progress)
    if as_json:
        print_json(to_builtins(reports))
    for report in reports:
        if not as_json:
            stdout().print(f"{printable(report.folder)}: {report}")
        for broken in report.broken:
            note(f"broken: {broken.reason}")
        for skipped in report.skipped:
            note(skipped.reason)
        for name, size in report.too_small.items():
            note(f"too small: {Path(report.folder, name)} has {size} images, but an episode needs 2")
    copies = [f"{one}: is a near copy of {other}" for report in reports for one, other in report.copies]
    report_skipped(copies, all_of_them="--json lists them all")
    report_skipped(unused_folders(data, named) if named else [], all_of_them="")
    shared = shared_classes({Path(report.folder).name: report.classes for report in reports})
    report_skipped([f"{data}: {each}" for each in shared], all_of_them="")
    problems = sum(len(report.broken) + len(report.too_small) for report in reports) + len(shared)
    if problems:
        raise FrnError(f"{data}: problems found: {problems} (listed above)")
