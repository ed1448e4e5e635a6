"""`frn data`: make data sets and look them over."""

from pathlib import Path
from typing import Annotated

import typer

from frn.cli.shell.console import note, printable, progress_bar, report_skipped, stdout, user_errors
from frn.cli.shell.output import AsJson, Format, chosen_format, printed
from frn.errors import FrnError

app = typer.Typer(no_args_is_help=True, help="Prepare data sets and check them.")


@app.command()
def prepare(
    name: Annotated[
        str,
        typer.Argument(
            help="cub-cropped, cub-raw, aircraft, meta-inat, tiered-meta-inat, mini-imagenet, tiered-imagenet, "
            "tiered-imagenet-224, cifar-fs, fc100, omniglot, or folder (anything of yours)."
        ),
    ],
    source: Annotated[
        list[Path],
        typer.Option(help="Archive as released, or a folder of archives or of what they unpack to. Repeatable."),
    ],
    out: Annotated[Path, typer.Option(help="Where train/, val/ and test/ go.")],
    split: Annotated[
        str | None, typer.Option(help="Class split: tang, chen or all of cub; lake or vinyals of omniglot.")
    ] = None,
    unofficial: Annotated[
        bool, typer.Option("--unofficial", help="Accept other checksums and counts than those published.")
    ] = False,
    download: Annotated[
        bool,
        typer.Option(
            "--download",
            help="First let torchvision fetch the archives into the folder --source: aircraft, cifar, omniglot.",
        ),
    ] = False,
    val: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.9,
            help="folder: share of classes for validation.",
            show_default="the folders' names say, or 0.2",
        ),
    ] = None,
    test: Annotated[
        float | None,
        typer.Option(
            min=0, max=0.9, help="folder: share of classes for test.", show_default="the folders' names say, or 0.2"
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="folder: which classes go where.", show_default="0")] = None,
) -> None:
    """Make a data set: train/, val/ and test/ with one folder per class.

    Checksums and numbers of classes and images are compared with the published ones. Nothing is downloaded unless
    --download says so, and nothing of the source is changed. A call that was interrupted goes on where it was; called
    again on a whole data set, it changes nothing. A folder of yours is split by the names in it where they say train,
    val or test (at least two of them), unless --val, --test or --seed is given; files that are no images are named.
    """
    with user_errors():
        from frn.data.prepare import prepare as prepare_data
        from frn.data.prepare.benchmarks.folder import SampledSplit
        from frn.data.prepare.prepared import NAME, read_record

        with progress_bar(f"preparing {name}") as progress:
            counts = prepare_data(
                name,
                source,
                out,
                split=split,
                unofficial=unofficial,
                download=download,
                sampled=SampledSplit(val, test, seed),
                progress=progress,
            )
        for part, (classes, images) in counts.items():
            stdout().print(f"{part:5}  {classes:4} classes  {images:6} images  {printable(str(out / part))}")
        record = read_record(out)
        assert record is not None  # has just been written
        if record.split_by:
            note(f"split {record.split_by}")
        for difference in record.differs:
            note(difference)
        report_skipped(record.skipped or [], all_of_them=f"{out / NAME} lists them all")


@app.command()
def check(
    data: Annotated[Path, typer.Argument(help="Data set with train/, val/, test/; or one folder of class folders.")],
    shot: Annotated[
        int | None, typer.Option(min=1, help="Support images of an episode: report smaller classes.", show_default="5")
    ] = None,
    queries: Annotated[
        int | None, typer.Option(min=1, help="Query images of an episode: report smaller classes.", show_default="15")
    ] = None,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """Decode every image and say what is there: classes, counts, sizes, broken files, classes too small, other files.

    The exit status is 1 if anything is broken, or too small for the episodes that --shot or --queries ask for.
    """
    with user_errors():
        wants = chosen_format(form, as_json)
        from frn.data.check import check_split
        from frn.data.folders import find_splits, unused_folders

        if not data.is_dir():
            raise FrnError(f"{data}: there is no such folder")
        found = list(find_splits(data).values())
        splits = found or [data]
        per_class = 2 if shot is queries is None else (shot or 5) + (queries or 15)
        reports = []
        for folder in splits:
            with progress_bar(f"checking {folder.name}") as progress:
                reports.append(check_split(folder, per_class, progress))
        counts = [
            {"split": str(report.folder), "class": name, "images": images, "too_small": name in report.too_small}
            for report in reports
            for name, images in report.sizes.items()
        ]
        printed(wants, [report.as_json() for report in reports], counts)
        for report in reports:
            if wants == "table":
                stdout().print(f"{printable(str(report.folder))}: {report}")
            for broken in report.broken:
                note(f"broken: {broken.reason}")
            for skipped in report.skipped:
                note(skipped.reason)
            for name, size in report.too_small.items():
                note(f"too small: {report.folder / name} has {size} images, but an episode needs {per_class}")
        report_skipped(unused_folders(data, found) if found else [], all_of_them="")
        problems = sum(len(report.broken) + len(report.too_small) for report in reports)
        if problems:
            raise FrnError(f"{problems} problems in {data}: each is named above")
