"""`frn score`: accuracy and calibration on labelled photos."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frn.cli.shell import console, options
from frn.cli.shell.classes import expectation, open_classes, show_expected
from frn.errors import FrnError
from frn.system.files import require_writable

if TYPE_CHECKING:
    from frn.evaluation.labelled import LabelledScore
    from frn.inference.classifier import Classifier

WIDEST = 20
"""Maximum number of classes for which the confusion table is shown."""
MAX_ERRORS = 10
"""Maximum number of wrong answers to show."""


@console.user_errors()
def score(
    classes: options.Classes,
    labelled: Annotated[Path, typer.Argument(help="Labelled photos: class folders, a zip or a CSV.")],
    model: options.ClassifierModel = None,
    threshold: options.Threshold = None,
    false_rejections: options.FalseRejections = 0.05,
    csv: Annotated[Path | None, typer.Option(help="Write one row per photo to this CSV file.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Also write a page with the results (.html).")] = None,
    replace: options.Replace = False,
    tta: options.TtaName = None,
    transductive: options.Transductive = False,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Measure accuracy, confusion and calibration on labelled photos.

    Photos in a folder whose name is not one of the classes should be rejected as unknown. Examples among the photos,
    and near copies of examples, are skipped.
    """
    console.check_report(report, replace=replace)
    if replace and csv is None and report is None:
        raise FrnError("--replace only applies to --csv and --report. Add one of them, or remove --replace.")
    if csv is not None:
        require_writable(csv, replace=replace)
    from frn.estimator.loading import class_files

    photos = class_files(labelled)  # before loading the model, to report a wrong path at once

    from frn.evaluation.labelled import score_labelled
    from frn.report.csv_rows import csv_text
    from frn.system.files import write_atomically

    classifier = open_classes(classes, model, device, tta, threshold=threshold, false_rejections=false_rejections)
    with console.progress_bar("photos") as progress:
        found = score_labelled(classifier, photos.members, transductive=transductive, progress=progress)
    console.report_skipped([*found.broken, *photos.skipped])
    console.report_skipped(found.notes, all_of_them="")
    if transductive:
        console.note("transductive: each answer depends on all photos of the call")
    if found.examples:
        console.note(f"warning: {len(found.examples)} photos are examples of the classes and were skipped")
    console.report_skipped(found.near_copies, all_of_them="--json and --report list them all")
    if csv is not None:
        rows = [{**row, "image": _beside(csv, str(row["image"]))} for row in found.rows]
        write_atomically(csv, csv_text(list(rows[0]), rows))
    if report is not None:
        from frn.report.page import write_page
        from frn.report.score_page import score_page

        facts = {"threshold": f"{classifier.threshold:.4f}", "photos": str(len(found.known))}
        write_page(report, score_page(found, f"{classes} on {labelled}", console.command_line(), facts))
    if as_json:
        console.print_json(_summary(found, classifier, classes, labelled))
    else:
        _show(found, classifier)
    if found.broken:
        of = sum(map(len, photos.members.values()))
        raise FrnError(f"{len(found.broken)} of {of} images could not be read")


def _beside(csv: Path, image: str) -> str:
    """Return the name of an image as a CSV is read: relative names are relative to its folder."""
    from frn.inference.project import write_path

    return image if Path(image).is_absolute() else write_path(Path(image), csv.parent).get("path", image)


def _summary(found: "LabelledScore", classifier: "Classifier", classes: Path, labelled: Path) -> dict[str, Any]:
    """Return all numbers; fractions without photos are null."""
    bins = found.reliability
    summary = {
        "classes": str(classes),
        "labelled": str(labelled),
        "photos": len(found.known),
        "accuracy": found.accuracy,
        "interval": found.interval,
        "per_class": {
            entry.name: {name: getattr(entry, name) for name in ("photos", "right", "recall", "precision")}
            for entry in found.per_class
        },
        "confusion": found.confusion.tolist(),
        "calibration_error": bins.error,
        "reliability": [
            {"photos": int(photos), "said": float(said), "right": float(right)}
            for photos, said, right in zip(bins.counts, bins.confidence, bins.accuracy, strict=True)
            if photos
        ],
        "false_rejections": found.false_rejections,
        "unknown": len(found.unknown),
        "true_positive_rate": found.true_positive_rate,
        "auroc": found.auroc,
        "expected": expectation(classifier),
        "errors": [
            {
                "image": str(answer.path),
                "truth": answer.truth,
                "label": answer.label,
                "probability": answer.probability,
                "unknown": answer.prediction.unknown,
            }
            for answer in found.errors
        ],
        "examples_skipped": len(found.examples),
        "near_copies": [
            {"image": str(each.path), "example": str(each.example), "label": each.class_name}
            for each in found.near_copies
        ],
        "transductive": found.known[0].prediction.transductive,
        "broken": [str(error) for error in found.broken],
    }
    return console.rounded(summary) | {"head": asdict(classifier.head)}


def _show(found: "LabelledScore", classifier: "Classifier") -> None:
    screen = console.stdout()
    low, high = found.interval
    screen.print(
        f"accuracy [bold]{found.accuracy:.1%}[/bold] ({found.right} of {len(found.known)} photos; "
        f"95% interval {low:.1%} to {high:.1%})",
        markup=True,
    )
    rows: list[list[str]] = []
    for entry in found.per_class:
        shares = ["-" if math.isnan(share) else f"{share:.0%}" for share in (entry.recall, entry.precision)]
        rows.append([entry.name, str(entry.photos), *shares])
    console.print_table(("class", "photos", "recall", "precision"), rows)
    if len(found.classes) <= WIDEST:
        numbered = [f"{i} {name}" for i, name in enumerate(found.classes, 1)]
        counts = [[str(count or "·") for count in row] for row in found.confusion.tolist()]
        heads = ["true \\ predicted", *map(str, range(1, len(numbered) + 1))]
        console.print_table(heads, [[name, *row] for name, row in zip(numbered, counts, strict=True)])
    for answer in found.errors[:MAX_ERRORS]:
        text = f"{answer.path}: is {answer.truth}, was labelled {answer.called}"
        screen.print(console.printable(text), soft_wrap=True)
    if len(found.errors) > MAX_ERRORS:
        screen.print(f"... and {len(found.errors) - MAX_ERRORS} more wrong answers (--csv lists all)")
    said = sum(answer.probability for answer in found.known) / len(found.known)
    screen.print(
        f"calibration: mean probability {said:.1%}, accuracy {found.accuracy:.1%}; "
        f"expected calibration error {100 * found.reliability.error:.1f} points"
    )
    threshold, rejected = classifier.threshold, found.false_rejections
    told = f"labelled unknown (typically below {threshold:.0%} explained): {rejected:.1%} of the known photos"
    if found.unknown:
        caught = f"{found.true_positive_rate:.1%} of {len(found.unknown)} photos from other classes"
        told += f", {caught}; AUROC {100 * found.auroc:.1f}%"
    screen.print(told)
    show_expected(classifier)
