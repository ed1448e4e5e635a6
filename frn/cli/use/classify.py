"""`frn classify`: label photos by example."""

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frn.cli.shell import console, options
from frn.cli.shell.classes import open_classes
from frn.errors import FrnError
from frn.inference.records import Answer, Unreadable, answer_of

if TYPE_CHECKING:
    from frn.images.boxes import Box
    from frn.inference.classifier import Classifier, Prediction
    from frn.report.photos_page import Album

BAR = 24  # width of a full bar, in characters


def classify(
    classes: options.Classes,
    images: Annotated[list[str], typer.Argument(help="Photos, folders or globs; - reads a list from stdin.")],
    model: options.ClassifierModel = None,
    level: options.Level = None,
    top: options.Top = None,
    threshold: options.Threshold = None,
    false_rejections: options.FalseRejections = 0.05,
    tta: options.TtaName = None,
    find: options.FindName = None,
    transductive: options.Transductive = False,
    device: options.Device = "auto",
    out: options.Answers = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the existing --out file (.jsonl).")] = False,
    report: Annotated[Path | None, typer.Option(help="Also write a page with the labelled photos (.html).")] = None,
    crops: Annotated[Path | None, typer.Option(help="Folder for the parts found by --find (.png).")] = None,
    replace: options.Replace = False,
    as_json: options.AsJson = False,
) -> None:
    """Label each photo with the class whose examples reconstruct it best.

    Unreadable photos are reported and skipped; the exit status is then 1. --json prints one object per line. Its
    `errors` are the mean squared reconstruction errors, and `explained` is 1 - error / energy of the photo.

    --out writes the same answers to a file: JSON lines or, if its name ends in .csv, rows for a spreadsheet. It handles
    any number of photos in constant memory. If the command was interrupted or killed, --resume continues JSON lines; it
    repeats photos that could not be read or have changed.

    --find one classifies the subject of each photo, and --find all every subject; --crops saves them. Each answer has
    the box of its subject.

    --report writes a self-contained page of thumbnails with error maps, sorted by confidence, with a filter by class.

    --transductive is more accurate if there are many photos but few examples per class. Each answer then depends on
    all photos of the call.
    """
    console.check_report(report, replace=replace)
    if replace and not (out or report or crops):
        raise FrnError("--replace only applies to --out, --report and --crops. Add one of them, or remove --replace.")
    if out and as_json:
        raise FrnError("--json prints the answers and --out writes them to a file. Use one of them.")
    if resume and (replace or report or transductive):
        raise FrnError("--resume classifies only the missing photos. Remove --replace, --report and --transductive.")
    if transductive and report:
        raise FrnError("--transductive needs all photos at once. Remove --report.")
    is_csv = out is not None and out.suffix.lower() == ".csv"
    if resume and (out is None or is_csv):
        raise FrnError("--resume continues a file of JSON lines. Add --out FILE.jsonl.")
    if out:
        from frn.inference.results import check_results, named_beside, write_answers

        check_results(out, resume=resume, replace=replace)

    from frn.cli.shell.photo_arguments import find_photos

    names, skipped = find_photos(images)  # before loading the model, to report a wrong path immediately
    console.report_skipped(skipped, all_of_them="")

    classifier = open_classes(
        classes, model, device, tta, level=level, find=find, threshold=threshold, false_rejections=false_rejections
    )
    if len(classifier.names) == 1:
        console.note(f"warning: {classes} has one class: every photo is labelled {classifier.names[0]!r} or unknown")
    if report and classifier.second:
        raise FrnError("--report shows all photos in one kind of crop. Remove --report, or use --tta views or none.")
    if crops and classifier.state.search == "none":
        raise FrnError("--crops saves the parts that --find finds. Add --find one.")
    if resume and classifier.state.search == "all":
        raise FrnError("--resume continues one answer per photo. Remove --resume, or use --find one.")
    if transductive:
        console.note("transductive: each answer depends on all photos of the call")
    unreadable: list[str] = []
    counts: Counter[str] = Counter()

    def answers(photos: Sequence[str]) -> Iterator[tuple[Answer | Unreadable, "Prediction | FrnError"]]:
        if classifier.state.search == "all":
            with console.progress_bar("subjects", shown=not sys.stdout.isatty()) as progress:
                photos, named = [], photos
                for done, name in enumerate(named, 1):
                    subjects = classifier.subjects(Path(name))
                    photos += map(str, subjects)
                    if not subjects:
                        console.note(f"{console.printable(name)}: no subject found")
                    progress(done, len(named))
        paths = map(Path, photos)
        classified = album.classify(paths) if album else classifier.classify(paths, transductive=transductive)
        with console.progress_bar("photos", shown=bool(out) or not sys.stdout.isatty()) as progress:
            # a Path would drop the ./ of a given name
            for done, (name, (_, outcome)) in enumerate(zip(photos, classified, strict=True), 1):
                if isinstance(outcome, FrnError):
                    unreadable.append(name)
                    yield Unreadable(image=name, error=str(outcome)), outcome
                else:
                    counts[outcome.label] += not outcome.unknown
                    if crops and outcome.box:
                        _save_crop(crops, name, outcome.box, replace)
                    yield answer_of(name, outcome, top), outcome
                progress(done, len(photos))

    album = _album(classifier, report, len(names), replace) if report else None
    if out:
        names = list(dict.fromkeys(names))
        if is_csv:
            boxes = [] if classifier.state.search == "none" else ["box"]
            records = (named_beside(out, record) for record, _ in answers(names))
            write_answers(out, records, classifier.names, "example_of", "near_copy_of", *boxes)
            written = f"{len(names):,} photos"
        else:
            written = _write_lines(out, classifier, names, answers, resume, replace)
        console.stdout().print(f"{console.printable(str(out))}: {written}")
    else:
        for record, outcome in answers(names):
            if as_json:
                console.print_json(record)
            elif isinstance(outcome, FrnError):
                console.note(f"error: {outcome}")
            else:
                _show(record.image, outcome, top or 3)
    if classifier.state.search == "all":
        console.note("subjects: " + (", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none"))
    if album and report:
        album.write(report, console.command_line(), replace=replace)
    if unreadable:
        where = f"; their lines in {out} give the reasons" if out else ""
        raise FrnError(f"{len(unreadable)} of {len(names)} images could not be read{where}")


def _save_crop(folder: Path, name: str, box: "Box", replace: bool) -> None:
    """Write a part of a photo; its name has those of the photo and its folder, and the box."""
    from frn.images.boxes import part_of, split_box
    from frn.images.opening import read_file
    from frn.system.files import write_atomically

    photo = split_box(name)[0]
    folder.mkdir(parents=True, exist_ok=True)
    crop = folder / f"{photo.absolute().parent.name} {photo.stem} {','.join(map(str, box))}.png"
    write_atomically(crop, read_file(part_of(photo, box)), replace=replace)


def _write_lines(
    out: Path,
    classifier: "Classifier",
    names: Sequence[str],
    answers: "Callable[[Sequence[str]], Iterator[tuple[Answer | Unreadable, Prediction | FrnError]]]",
    resume: bool,
    replace: bool,
) -> str:
    """Append the photos that have no valid line yet; return a summary."""
    from frn.inference.results import ResultsFile, run_digest

    with ResultsFile(out, run_digest(classifier), resume=resume, replace=replace) as results:
        failed = {name for name in names if results.done.get(name) == ""}
        changed = {name for name in names if results.done.get(name) and _has_changed(name, results.done[name])}
        results.forget(failed | changed)
        missing = [name for name in names if name not in results.done]
        results.done.clear()
        for record, outcome in answers(missing):
            results.add(record, "" if isinstance(outcome, FrnError) else outcome.key)
    again = f": {len(changed):,} changed, {len(failed):,} could not be read before" if failed | changed else ""
    return f"{len(names):,} photos, {len(missing):,} of them classified now{again}"


def _has_changed(name: str, key: str) -> bool:
    from frn.features.feature_cache import content_key
    from frn.images.opening import read_file

    try:
        return content_key(read_file(Path(name))) != key
    except FrnError:
        return True


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


def _show(image: str, prediction: "Prediction", top: int) -> None:
    from rich.text import Text

    screen = console.stdout()
    label, known = prediction.label, f"{prediction.known:.0%} known"
    verdict = ("unknown", f" ({known}; nearest: {console.printable(label)})")
    if not prediction.unknown:
        known = "" if math.isnan(prediction.known) else f" ({known})"
        verdict = (console.printable(label), f" {prediction.probabilities[label]:.1%}{known}")
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
        note = f" {shares[name]:6.1%}{also}"
        screen.print(Text.assemble(f"  {console.printable(name).ljust(width)}  ", (bar, "green"), note), soft_wrap=True)
