"""`frn classify`: label photos by example."""

import io
import sys
from collections.abc import Sequence
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frn.cli.shell import console, options
from frn.cli.shell.classes import as_line, open_classes, refuse_a_photo
from frn.errors import FrnError
from frn.report.csv_rows import CsvWriter

if TYPE_CHECKING:
    from frn.inference.classifier import Classifier, Prediction
    from frn.inference.results import ResultsFile
    from frn.report.photos_page import Album

COLUMNS = ("image", "label", "probability", "explained", "threshold", "unknown", "example_of", "near_copy_of", "error")
"""CSV columns before the class probabilities."""
BAR = 24
"""Width of a full bar, in characters."""


@console.user_errors()
def classify(
    context: typer.Context,
    classes: options.Classes,
    images: Annotated[list[str], typer.Argument(help="Photos, folders or globs; - reads a list from stdin.")],
    model: options.ClassifierModel = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Number of classes to show per photo.", show_default="3")
    ] = None,
    threshold: options.Threshold = None,
    false_rejections: options.FalseRejections = 0.05,
    tta: options.TtaName = None,
    transductive: options.Transductive = False,
    device: options.Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Write one JSON line per photo to this file (.jsonl).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Append to the existing --out file.")] = False,
    report: Annotated[Path | None, typer.Option(help="Also write a page with the labelled photos (.html).")] = None,
    replace: options.Replace = False,
    as_json: options.AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV rows instead of a table.")] = False,
) -> None:
    """Label each photo with the class whose examples reconstruct it best.

    Unreadable photos are reported and skipped; the exit status is then 1. --json prints one object per line. Its
    `errors` are the mean squared reconstruction errors, and `explained` is 1 - error / energy of the photo.

    --report writes a self-contained page of thumbnails with error maps, sorted by confidence, with a filter by class.

    --out handles any number of photos in constant memory and writes the --top best classes of each. If the command was
    interrupted or killed, --resume continues it.

    --transductive is more accurate if there are many photos but few examples per class. Each answer then depends on
    all photos of the call.
    """
    console.check_report(report, replace=replace)
    if replace and not (out or report):
        raise FrnError("--replace only applies to --out and --report. Add one of them, or remove --replace.")
    if as_json and as_csv:
        raise FrnError("--json and --csv both print to stdout. Use one of them.")
    if out and (as_json or as_csv or report):
        raise FrnError("--out only writes JSON lines. Remove --json, --csv and --report.")
    if out and out.suffix.lower() in (".csv", ".tsv", ".html"):
        table = "--report FILE.html" if out.suffix.lower() == ".html" else f"--csv > {out}"
        raise FrnError(
            f"{out}: --out only writes JSON lines. Name the file {out.with_suffix('.jsonl')}, or use {table}."
        )
    if transductive and (out or report):
        raise FrnError("--transductive needs all photos at once. Remove --out and --report.")
    source = context.get_parameter_source("top")  # FRN_CLASSIFY_TOP affects only the table
    if source is not None and source.name == "COMMANDLINE" and (as_json or as_csv):
        raise FrnError("--top limits the table and --out; --json and --csv list all classes. Remove --top.")
    top = top or 3
    if out:
        from frn.inference.results import ResultsFile, check_results, run_digest

        check_results(out, resume=resume, replace=replace)
    if resume and replace:
        raise FrnError("--resume and --replace contradict each other. Use one of them.")
    if resume and not out:
        raise FrnError("--resume continues an --out file. Add --out.")
    refuse_a_photo(classes, images[0], "classify")

    from frn.cli.shell.photo_arguments import find_photos

    names, skipped = find_photos(images)  # before loading the model, to report a wrong path at once
    console.report_skipped(skipped, all_of_them="")

    classifier = open_classes(classes, model, device, tta, threshold=threshold, false_rejections=false_rejections)
    if len(classifier.classes) == 1:
        console.note(
            f"warning: {classes} has one class: every photo is labelled {next(iter(classifier.classes))!r} or unknown"
        )
    if out:
        results = ResultsFile(out, run_digest(classifier), resume=resume, replace=replace)
        failed = _write_lines(classifier, names, results, top)
        if failed:
            raise FrnError(f"{failed} images could not be read; their lines in {out} give the reasons")
        return
    if transductive:
        console.note("transductive: each answer depends on all photos of the call")
    album = _album(classifier, report, len(names), replace) if report else None
    failed, rows = 0, csv_writer([*COLUMNS, *map(_share_of, classifier.classes)]) if as_csv else None
    paths = map(Path, names)
    classified = album.classify(paths) if album else classifier.classify(paths, transductive=transductive)
    with console.progress_bar("photos", shown=not sys.stdout.isatty()) as progress:  # answers show the progress
        # a Path would drop the ./ of a given name
        for done, (name, (_, outcome)) in enumerate(zip(names, classified, strict=True), 1):
            failed += isinstance(outcome, FrnError)
            if rows:
                rows.write(_as_row(name, outcome))
            elif isinstance(outcome, FrnError):
                reason = str(outcome)
                console.print_json({"image": name, "error": reason}) if as_json else console.note(f"error: {reason}")
            elif as_json:
                console.print_json(as_line(name, outcome))
            else:
                _show(name, outcome, top)
            progress(done, len(names))
    if album and report:
        album.write(report, console.command_line())
    if failed:
        raise FrnError(f"{failed} of {len(names)} images could not be read")


def _write_lines(classifier: "Classifier", asked: list[str], results: "ResultsFile", top: int) -> int:
    """Classify the photos that are not yet in the results; return how many photos could not be read."""
    with results, console.progress_bar("photos") as progress:
        names = dict.fromkeys(asked)
        left = [name for name in names if name not in results.done]
        answered = len(names) - len(left)
        failed = len(results.failed & names.keys())
        results.done.clear()
        for name, (_, outcome) in zip(left, classifier.classify(map(Path, left)), strict=True):
            if isinstance(outcome, FrnError):
                failed += 1
                results.add({"image": name, "error": str(outcome)})
            else:
                results.add(as_line(name, outcome, top))
            answered += 1
            progress(answered, len(names))
    console.stdout().print(
        f"{console.printable(str(results.path))}: {len(names):,} photos, {len(left):,} of them classified now"
    )
    return failed


def _album(classifier: "Classifier", report: Path, photos: int, replace: bool) -> "Album":
    """Return the album that collects the photos for a report; announce the size of a large report in advance."""
    from frn.report.photos_page import CARD_BYTES, Album, page_paths
    from frn.system.files import require_writable

    pages = page_paths(report, photos)
    for page in pages[1:]:
        require_writable(page, replace=replace)
    if len(pages) > 1:
        weight = f"about {photos * CARD_BYTES / 1e6:,.0f} MB, in {len(pages)} pages"
        console.note(f"the report of {photos:,} photos will take {weight}: {report.name} to {pages[-1].name}")
    return Album(classifier)


def _as_row(name: str, outcome: "Prediction | FrnError") -> dict[str, object]:
    """Return one flat row for a photo, with a column for the probability of each class."""
    if isinstance(outcome, FrnError):
        return {"image": name, "error": str(outcome)}
    line = as_line(name, outcome)
    shares = {_share_of(each): value for each, value in console.rounded(outcome.probabilities).items()}
    return {**{key: line[key] for key in COLUMNS if key in line}, **shares}


def csv_writer(columns: Sequence[str]) -> CsvWriter:
    """Write comma-separated values to stdout; on a terminal, escape control characters."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(newline="")  # rows have their own line endings
    escapes = sys.stdout.isatty()
    return CsvWriter(sys.stdout, columns, lambda v: console.printable(v) if escapes and isinstance(v, str) else v)


def _share_of(name: str) -> str:
    return f"probability of {name}"


def _show(image: str, prediction: "Prediction", top: int) -> None:
    from rich.text import Text

    screen = console.stdout()
    label, share = prediction.label, prediction.explained[prediction.label]
    verdict = ("unknown", f" ({share:.1%} explained by {console.printable(label)}; {prediction.threshold:.1%} needed)")
    if not prediction.unknown:
        verdict = (console.printable(label), f" {prediction.probabilities[label]:.1%} ({share:.0%} explained)")
    if prediction.example_of:
        verdict = (verdict[0], f"{verdict[1]}, an example of {console.printable(prediction.example_of)} (ignored here)")
    if prediction.near_copy_of:
        verdict = (
            verdict[0],
            f"{verdict[1]}, nearly the same photo as {console.printable(str(prediction.near_copy_of.path))}",
        )
    line = Text.assemble(f"{console.printable(image)}: ", (verdict[0], "bold"), verdict[1])
    screen.print(line, soft_wrap=True)  # keep a long path on one line
    if top == 1:
        return
    ranked = nsmallest(top, prediction.errors, key=prediction.errors.__getitem__)
    width = max(len(console.printable(name)) for name in ranked)
    full = "█" if screen.encoding.startswith("utf") else "#"
    shares = prediction.explained if prediction.unknown else prediction.probabilities
    for name in ranked:
        bar = (full * round(shares[name] * BAR)).ljust(BAR)
        also = " explained" if prediction.unknown else f" ({prediction.explained[name]:.0%} explained)"
        told = f" {shares[name]:6.1%}{also}"
        screen.print(Text.assemble(f"  {console.printable(name).ljust(width)}  ", (bar, "green"), told), soft_wrap=True)
