"""`frn classify`: label photos by a folder of class folders."""

import glob
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frn.cli.console import (
    check_report,
    command_line,
    note,
    print_json,
    printable,
    progress_bar,
    report_left_out,
    stdout,
    user_errors,
)
from frn.cli.options import Classes, ClassifierDevice, ClassifierModel, TestTimeName, refuse_a_photo
from frn.cli.results import AsCsv, AsJson, Format, RowWriter, chosen_format
from frn.errors import FrnError

if TYPE_CHECKING:
    from frn.inference.classifier import Classifier, Prediction
    from frn.report.photos import Album

COLUMNS = ("image", "label", "probability", "explained", "threshold", "unknown", "error")
"""Of CSV, before each class's probability."""
MAX_LIST = 256 << 20
"""Bytes of names that stdin may list."""
BAR = 24
"""Width of a full bar, in characters."""


def classify(
    classes: Classes,
    images: Annotated[
        list[str], typer.Argument(help="Photos, folders of photos, or globs; - reads a list of them from stdin.")
    ],
    model: ClassifierModel = None,
    top: Annotated[int, typer.Option(min=1, help="Classes to show per photo.")] = 3,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Call a photo unknown where no class explains this share of it; 0 never does.",
            show_default="calibrated from the example photos",
        ),
    ] = None,
    test_time: TestTimeName = "fast",
    device: ClassifierDevice = "auto",
    out: Annotated[
        Path | None,
        typer.Option(help="Write a line of JSON per photo to this file (.jsonl) as they come.", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the file of --out.")] = False,
    report: Annotated[
        Path | None, typer.Option(help="Also write a page (.html) of the photos with their labels.", show_default=False)
    ] = None,
    form: Format = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Label photos by the class whose examples rebuild them best.

    Broken photos are reported and stop nothing; the exit status is then 1. A report has the photos as thumbnails sorted
    by sureness, to be filtered by class, with their error maps, in one file that needs no network. As JSON, each photo
    is an object on a line of its own.

    With --out any number of photos takes the same memory, and after a stop or a kill --resume answers the rest; a line
    has the --top best classes.
    """
    with user_errors():
        wants = chosen_format(form, as_json, as_csv)
        check_report(report)
        if out and (wants != "table" or report):
            raise FrnError("--out writes lines of JSON and nothing else. Leave out --json, --csv and --report.")
        if resume and not out:
            raise FrnError("--resume goes on with the file of --out: give it.")
        refuse_a_photo(classes, images[0], "classify")
        paths, skipped = _image_paths(_listed(images))  # before the model is loaded: a wrong path is told at once
        report_left_out(skipped, all_of_them="")

        from frn.loading import load_classifier

        classifier, left_out = load_classifier(classes, model, device, test_time)
        report_left_out([str(error) for error in left_out])
        if threshold is not None:
            classifier.threshold_override = threshold
        if len(classifier.classes) == 1:
            note(
                f"warning: {classes} has one class: every photo is called {next(iter(classifier.classes))!r} or unknown"
            )
        if out:
            failed = _write_lines(classifier, paths, out, resume=resume, top=top)
            if failed:
                raise FrnError(f"{failed} images could not be read: their lines in {out} say why")
            return
        album = _album(classifier) if report else None
        failed, rows = 0, RowWriter([*COLUMNS, *map(_share_of, classifier.classes)]) if wants == "csv" else None
        for path, outcome in album.classify(paths) if album else classifier.classify(paths):
            failed += isinstance(outcome, FrnError)
            if rows:
                rows.write(_as_row(path, outcome))
            elif isinstance(outcome, FrnError):
                reason = str(outcome)
                print_json({"image": str(path), "error": reason}) if wants == "json" else note(f"error: {reason}")
            elif wants == "json":
                print_json(_as_line(path, outcome))
            else:
                _show(path, outcome, top)
        if album and report:
            from frn.files import write_atomically

            write_atomically(report, album.page(command_line()))
        if failed:
            raise FrnError(f"{failed} of {len(paths)} images could not be read")


def _write_lines(classifier: "Classifier", paths: list[Path], out: Path, *, resume: bool, top: int) -> int:
    """Answer the photos that have no line yet; returns how many could not be read."""
    from frn.inference.results import ResultsFile, run_digest

    failed = 0
    with ResultsFile(out, run_digest(classifier), resume=resume) as results, progress_bar("photos") as progress:
        names = dict.fromkeys(map(str, paths))
        left = [name for name in names if name not in results.done]
        results.done.clear()
        for index, (path, outcome) in enumerate(classifier.classify(map(Path, left)), 1):
            failed += isinstance(outcome, FrnError)
            error = {"image": str(path), "error": str(outcome)}
            results.add(error if isinstance(outcome, FrnError) else _as_line(path, outcome, top))
            progress(len(names) - len(left) + index, len(names))
    stdout().print(f"{printable(str(out))}: {len(names):,} photos, {len(left):,} of them now", markup=False)
    return failed


def _album(classifier: "Classifier") -> "Album":
    from frn.report.photos import Album

    return Album(classifier)


def _listed(words: Sequence[str]) -> list[str]:
    """The words, a `-` among them replaced by what stdin lists: one to a line, or each ended by NUL."""
    if "-" not in words:
        return list(words)
    data = sys.stdin.buffer.read(MAX_LIST + 1)
    if len(data) > MAX_LIST:
        raise FrnError(f"-: stdin lists more than {MAX_LIST >> 20} MiB of names")
    text = os.fsdecode(data)
    listed = [line for line in (text.split("\0") if "\0" in text else text.splitlines()) if line]
    if not listed:
        raise FrnError("-: stdin lists no photos. It takes one to a line.")
    return [each for word in words for each in (listed if word == "-" else [word])]


def _image_paths(words: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Files named by words: an existing file stands for itself, a folder for its images, the rest is a glob.

    Returns the files, and why others in those folders are none of them.
    """
    from frn.data.folders import list_images

    paths: list[Path] = []
    skipped: list[str] = []
    for word in words:
        path = Path(word)
        if path.is_dir():
            found = list_images(path)
            if not found.images:
                raise FrnError(f"{path}: has no images in it")
            paths += [path / name for name in found.images]
            skipped += [entry.reason for entry in found.skipped]
        elif path.exists() or not glob.has_magic(word):
            paths.append(path)  # a missing file is reported in its turn
        else:
            matches = [Path(match) for match in sorted(glob.glob(word, recursive=True)) if Path(match).is_file()]
            if not matches:
                raise FrnError(f"{word}: no file has a name like that")
            paths += matches
    return paths, skipped


def _as_line(path: Path, prediction: "Prediction", top: int | None = None) -> dict[str, object]:
    """An answer, with all classes or the `top` best of them."""
    names = sorted(prediction.errors, key=prediction.errors.__getitem__)[:top] if top else prediction.errors
    return {
        "image": str(path),
        "label": prediction.label,
        "probability": round(prediction.probabilities[prediction.label], 6),
        "probabilities": {name: round(prediction.probabilities[name], 6) for name in names},
        "errors": {name: round(prediction.errors[name], 6) for name in names},
        "explained": round(prediction.explained[prediction.label], 6),
        "threshold": round(prediction.threshold, 6),
        "unknown": prediction.unknown,
    }


def _as_row(path: Path, outcome: "Prediction | FrnError") -> dict[str, object]:
    """A photo as one flat row: a column for every class's probability."""
    if isinstance(outcome, FrnError):
        return {"image": str(path), "error": str(outcome)}
    line = _as_line(path, outcome)
    shares = {_share_of(name): round(value, 6) for name, value in outcome.probabilities.items()}
    return {**{key: line[key] for key in COLUMNS if key in line}, **shares}


def _share_of(name: str) -> str:
    return f"probability of {name}"


def _show(path: Path, prediction: "Prediction", top: int) -> None:
    from rich.markup import escape

    console = stdout()
    label, share = prediction.label, prediction.explained[prediction.label]
    name = escape(printable(label))
    if prediction.unknown:
        verdict = f"[bold]unknown[/bold] ({share:.0%} explained by {name}, of {prediction.threshold:.0%} needed)"
    else:
        verdict = f"[bold]{name}[/bold] {prediction.probabilities[label]:.1%} ({share:.0%} explained)"
    console.print(f"{escape(printable(str(path)))}: {verdict}")
    if top == 1:
        return
    ranked = sorted(prediction.errors, key=prediction.errors.__getitem__)[:top]
    width = max(len(name) for name in ranked)
    full = "█" if console.encoding.startswith("utf") else "#"
    for name in ranked:
        probability = prediction.probabilities[name]
        bar = (full * round(probability * BAR)).ljust(BAR)
        error = prediction.errors[name]
        console.print(
            f"  {escape(printable(name)).ljust(width)}  [green]{bar}[/green] {probability:6.1%}  error {error:.4f}"
        )
