"""`frn score`: accuracy and calibration on labelled photos."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from frn.cli.shell import console, options
from frn.cli.shell.classes import expectation, open_classes, show_expected
from frn.errors import FrnError
from frn.inference.records import Score, rounded

if TYPE_CHECKING:
    from frn.evaluation.labelled import LabelledScore
    from frn.inference.classifier import Classifier

MAX_ERRORS = 10
"""Maximum number of wrong answers to show."""


@console.user_errors()
def score(
    classes: options.Classes,
    labelled: Annotated[Path, typer.Argument(help="Labelled photos: class folders, a zip or a CSV.")],
    model: options.ClassifierModel = None,
    level: options.Level = None,
    threshold: options.Threshold = None,
    false_rejections: options.FalseRejections = 0.05,
    out: options.Answers = None,
    report: Annotated[Path | None, typer.Option("--report", help="Also write a page with the results (.html).")] = None,
    replace: options.Replace = False,
    tta: options.TtaName = None,
    find: options.FindName = None,
    transductive: options.Transductive = False,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Score your photos: accuracy, confusion and calibration on photos whose classes you know.

    Photos in a folder whose name is not one of the classes should be rejected as unknown. Examples among the photos,
    and near copies of examples, are skipped. To evaluate a model on a benchmark, use `frn eval`.
    """
    console.check_report(report, replace=replace)
    if replace and not (out or report):
        raise FrnError("--replace only applies to --out and --report. Add one of them, or remove --replace.")
    from frn.inference.results import check_results, named_beside, write_answers
    from frn.projects.class_files import class_files

    if out:
        check_results(out, replace=replace)

    photos = class_files(labelled, level)  # before loading the model, to report a wrong path at once

    from frn.evaluation.labelled import score_labelled

    classifier = open_classes(
        classes, model, device, tta, level=level, find=find, threshold=threshold, false_rejections=false_rejections
    )
    with console.progress_bar("photos") as progress:
        result = score_labelled(classifier, photos.with_others, transductive=transductive, progress=progress)
    console.report_skipped([*(error for _, error in result.broken), *photos.skipped])
    console.report_skipped([*result.notes, *photos.notes], all_of_them="")
    if transductive:
        console.note("transductive: each answer depends on all photos of the call")
    if result.examples:
        console.note(f"warning: {len(result.examples)} photos are examples of the classes and were skipped")
    console.report_skipped(result.near_copies, all_of_them="--json and --report list them all")
    if out:
        records = (named_beside(out, record) for record in result.records)
        boxes = [] if classifier.state.search == "none" else ["box"]
        write_answers(out, records, result.classes, "truth", *boxes)
    if report is not None:
        from frn.report.page import write_page
        from frn.report.score_page import score_page

        facts = {"threshold": f"{classifier.threshold:.4f}", "photos": str(len(result.known))}
        explains = None if transductive or classifier.other else classifier  # only FRN's head alone names its parts
        page = score_page(result, f"{classes} on {labelled}", console.command_line(), facts, explains)
        write_page(report, page, replace=replace)
    if as_json:
        console.print_json(_record(result, classifier, classes, labelled))
    else:
        _show(result, classifier)
    if result.broken:
        of = sum(map(len, photos.members.values()))
        raise FrnError(f"{len(result.broken)} of {of} images could not be read")


def _record(result: "LabelledScore", classifier: "Classifier", classes: Path, labelled: Path) -> Score:
    """Return all numbers; fractions without photos are null."""
    bins = result.reliability
    numbers = {
        "classes": str(classes),
        "labelled": str(labelled),
        "photos": len(result.known),
        "accuracy": result.accuracy,
        "interval": result.interval,
        "per_class": {
            entry.name: {name: getattr(entry, name) for name in ("photos", "right", "recall", "precision")}
            for entry in result.per_class
        },
        "confusion": result.confusion.tolist(),
        "calibration_error": bins.error,
        "reliability": [
            {"photos": int(photos), "said": float(said), "right": float(right)}
            for photos, said, right in zip(bins.counts, bins.confidence, bins.accuracy, strict=True)
            if photos
        ],
        "false_rejections": result.false_rejections,
        "unknown": len(result.unknown),
        "true_positive_rate": result.true_positive_rate,
        "auroc": result.auroc,
        "expected": expectation(classifier),
        "wrong": [msgspec.to_builtins(answer.record) for answer in result.errors],
        "examples_skipped": len(result.examples),
        "near_copies": {str(each.path): str(each.example) for each in result.near_copies},
        "transductive": result.known[0].prediction.transductive,
        "broken": [{"image": str(path), "error": str(error)} for path, error in result.broken],
        "head": asdict(classifier.head),
    }
    return msgspec.convert(rounded(numbers), Score)


def _show(result: "LabelledScore", classifier: "Classifier") -> None:
    screen = console.stdout()
    low, high = result.interval
    screen.print(
        f"accuracy [bold]{result.accuracy:.1%}[/bold] ({result.right} of {len(result.known)} photos; "
        f"95% interval {low:.1%} to {high:.1%})",
        markup=True,
    )
    rows: list[list[str]] = []
    for entry in result.per_class:
        shares = ["-" if math.isnan(share) else f"{share:.0%}" for share in (entry.recall, entry.precision)]
        rows.append([entry.name, str(entry.photos), *shares])
    console.print_table(("class", "photos", "recall", "precision"), rows)
    # Maximum number of classes for which the confusion table is shown
    if len(result.classes) <= 20:
        numbered = [f"{i} {name}" for i, name in enumerate(result.classes, 1)]
        counts = [[str(count or "·") for count in row] for row in result.confusion.tolist()]
        heads = ["true \\ predicted", *map(str, range(1, len(numbered) + 1))]
        console.print_table(heads, [[name, *row] for name, row in zip(numbered, counts, strict=True)])
    for answer in result.errors[:MAX_ERRORS]:
        text = f"{answer.path}: is {answer.truth}, was labelled {answer.called}"
        screen.print(console.printable(text), soft_wrap=True)
    if len(result.errors) > MAX_ERRORS:
        screen.print(f"... and {len(result.errors) - MAX_ERRORS} more wrong answers (--json lists all)")
    said = sum(answer.probability for answer in result.known) / len(result.known)
    screen.print(
        f"calibration: mean probability {said:.1%}, accuracy {result.accuracy:.1%}; "
        f"expected calibration error {100 * result.reliability.error:.1f} points"
    )
    threshold, rejected = classifier.threshold, result.false_rejections
    line = f"labelled unknown (below {threshold:.0%} known): {rejected:.1%} of the photos of your classes"
    if result.unknown:
        caught = f"{result.true_positive_rate:.1%} of {len(result.unknown)} photos from other classes"
        line += f", {caught}; AUROC {100 * result.auroc:.1f}%"
    screen.print(line)
    show_expected(classifier)
