"""`frn score`: accuracy and calibration on labelled photos."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frn.cli.shell import console, options
from frn.cli.shell.classes import expectation, open_classes, show_expected
from frn.errors import FrnError
from frn.inference.records import Score

if TYPE_CHECKING:
    from frn.inference.classifier import Classifier

MAX_ERRORS = 10  # maximum number of wrong answers to show


def score(
    classes: options.Classes,
    labelled: Annotated[Path, typer.Argument(help="Labelled photos: class folders, a zip or a CSV.")],
    model: options.ClassifierModel = None,
    level: options.Level = None,
    threshold: options.Threshold = None,
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

    photos = class_files(labelled, level)  # before loading the model, to report a wrong path immediately

    from frn.evaluation.labelled import score_labelled

    classifier = open_classes(classes, model, device, tta, level=level, find=find, threshold=threshold)
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
    expected, head = expectation(classifier), asdict(classifier.head)
    score = result.record(str(classes), str(labelled), expected, head)
    if report is not None:
        from frn.report.page import write_page
        from frn.report.score_page import score_page

        facts = {"threshold": f"{classifier.threshold:.4f}", "photos": str(score.photos)}
        if why := classifier.calibration.unchecked:
            facts["probabilities"] = why
        explains = None if transductive or classifier.other else classifier  # only FRN's head alone names its parts
        write_page(report, score_page(score, result.records, console.command_line(), facts, explains), replace=replace)
    if as_json:
        console.print_json(score)
    else:
        _show(score, classifier)
    if result.broken:
        of = sum(map(len, photos.members.values()))
        raise FrnError(f"{len(result.broken)} of {of} images could not be read")


def _show(score: Score, classifier: "Classifier") -> None:
    screen = console.stdout()
    low, high = score.interval
    right = sum(entry.right for entry in score.per_class.values())
    screen.print(
        f"accuracy [bold]{score.accuracy:.1%}[/bold] ({right} of {score.photos} photos; "
        f"95% interval {low:.1%} to {high:.1%})",
        markup=True,
    )
    rows: list[list[str]] = []
    for name, entry in score.per_class.items():
        shares = ["-" if share is None else f"{share:.0%}" for share in (entry.recall, entry.precision)]
        rows.append([name, str(entry.photos), *shares])
    console.print_table(("class", "photos", "recall", "precision"), rows)
    if len(rows) <= 20:  # maximum number of classes for which the confusion table is shown
        numbered = [f"{i} {name}" for i, name in enumerate(score.per_class, 1)]
        counts = [[str(count or "·") for count in row] for row in score.confusion]
        heads = ["true \\ predicted", *map(str, range(1, len(numbered) + 1))]
        console.print_table(heads, [[name, *row] for name, row in zip(numbered, counts, strict=True)])
    for answer in score.wrong[:MAX_ERRORS]:
        text = f"{answer.image}: is {answer.truth}, was labelled {answer.called}"
        screen.print(console.printable(text), soft_wrap=True)
    if len(score.wrong) > MAX_ERRORS:
        screen.print(f"... and {len(score.wrong) - MAX_ERRORS} more wrong answers (--json lists all)")
    said = sum(each.photos * each.said for each in score.reliability) / score.photos
    screen.print(
        f"calibration: mean probability {said:.1%}, accuracy {score.accuracy:.1%}; "
        f"expected calibration error {100 * score.calibration_error:.1f} points"
    )
    threshold, rejected = classifier.threshold, score.false_rejections
    line = f"labelled unknown (below {threshold:.0%} known): {rejected:.1%} of the photos of your classes"
    if score.true_positive_rate is not None and score.auroc is not None:
        caught = f"{score.true_positive_rate:.1%} of {score.unknown} photos from other classes"
        line += f", {caught}; AUROC {100 * score.auroc:.1f}%"
    screen.print(line)
    show_expected(classifier)
