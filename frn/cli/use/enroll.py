"""`frn enroll`: save classes from folders of photos in a project file."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frn.cli.shell import console, options
from frn.cli.shell.classes import expectation, show_expected
from frn.errors import FrnError
from frn.inference.records import rounded
from frn.models.zoo import DEFAULT_MODEL
from frn.system.files import require_writable

if TYPE_CHECKING:
    from frn.inference.classifier import Classifier


@console.user_errors()
def enroll(
    sources: Annotated[list[str], typer.Argument(help="Class folders as for classify, or NAME=FOLDER...")],
    out: Annotated[Path, typer.Option(help="Project file to write (.frn.json).")],
    model: options.ClassifierModel = None,
    threshold: options.Threshold = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a project; the old one is kept as .bak.")] = False,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Save classes from folders of photos in a project file.

    Use the project with `frn classify`, `frn explain`, `frn export` and frn-tui. It stores the paths of the photos, not
    the photos. To enroll a project again, for example with a different model, pass the project alone: the copy keeps
    everything else.

    For each class, the table shows how much of a photo the other photos of the class reconstruct. A low minimum
    suggests a photo in the wrong class.
    """
    from frn.data.names import lookalikes
    from frn.estimator.loading import class_files, load_extractor
    from frn.inference.any_head import classifier_over
    from frn.inference.feature_cache import FeatureStore
    from frn.inference.project import ModelReference, Project, is_project, save_project

    if not is_project(out):
        raise FrnError(f"{out}: a project must end in .frn.json")
    require_writable(out, replace=True)
    if out.exists() and not replace:
        raise FrnError(f"{out}: already exists. --replace replaces it and keeps the old one as {out.name}.bak")
    again = class_files(Path(sources[0])) if len(sources) == 1 and is_project(Path(sources[0])) else None
    members, skipped = (again.members, again.skipped) if again else _members(sources)
    before = again.project if again else None
    name = model or (again and again.model) or DEFAULT_MODEL
    classifier = classifier_over(load_extractor(name, device, before.model.tta if before else "none"), FeatureStore())
    with console.live_text(f"enrolling {sum(map(len, members.values())):,} photos"):
        if before is None:
            notes = classifier.enroll(members)
        else:  # the threshold belongs to the model
            same = classifier.extractor.plain_sha256 == before.model.sha256
            notes = classifier.enroll_state(before.state if same else dataclasses.replace(before.state, threshold=None))
    skipped = [*map(str, notes), *skipped]
    console.report_skipped([*skipped, *lookalikes(members)])
    if threshold is not None:
        classifier.threshold_override = threshold
    state = dataclasses.replace(classifier.state, threshold=classifier.threshold_override)
    document = before.document if before else {}
    if before:  # with classes that have no photos
        found = {entry.id: entry for entry in state.classes}
        state = dataclasses.replace(state, classes=tuple(found.get(each.id, each) for each in before.state.classes))
    if classifier.kept_head:
        document = {**document, "head": classifier.kept_head}
    reference = ModelReference.of(name, classifier.extractor, out.parent)
    save_project(out, Project(reference, state, document), replace=replace)
    if as_json:
        console.print_json(_summary(out, classifier, len(skipped)))
    else:
        _show(out, classifier)


def _members(sources: list[str]) -> tuple[dict[str, list[Path]], list[str]]:
    """Return the files of each class, and the reasons for skipped files."""
    from frn.data.folders import list_images
    from frn.estimator.loading import class_files
    from frn.inference.project import is_project

    members: dict[str, list[Path]] = {}
    skipped: list[str] = []
    for source in sources:
        path = Path(source)
        name, equals, folder = source.partition("=")
        if is_project(path) or path.exists() or not equals:
            listed = class_files(path)
            found, reasons = listed.members, listed.skipped
        else:
            images, others = list_images(Path(folder))
            if not images:
                raise FrnError(f"{folder}: contains no images")
            found = {name: [Path(folder) / file for file in images]}
            reasons = [entry.reason for entry in others]
        for twin in found.keys() & members.keys():
            raise FrnError(f"class {twin!r} occurs twice: in {source} and in an earlier source")
        members |= found
        skipped += reasons
    return members, skipped


def _summary(out: Path, classifier: "Classifier", skipped: int) -> dict[str, Any]:
    explained = classifier.leave_one_out
    classes = {
        entry.name: {"images": len(entry.supports), "explained": list(map(float, explained.get(entry.name, ())))}
        for entry in classifier.state.classes
    }
    found = {"project": str(out), "threshold": classifier.threshold, "skipped": skipped, "classes": classes}
    head = dataclasses.asdict(classifier.head)
    return rounded(found | {"expected": expectation(classifier), "head": head})


def _show(out: Path, classifier: "Classifier") -> None:
    rows = []
    for entry in classifier.state.classes:
        shares = classifier.leave_one_out.get(entry.name)
        cells = ("", "only one image: leave-one-out is not possible")
        if shares is not None:
            least = entry.supports[shares.argmin()].path.name
            cells = (f"{shares.mean():.0%} on average", f"{shares.min():.0%} {least}")
        rows.append((entry.name, str(len(entry.supports)), *cells))
    console.print_table(("class", "images", "explained by the others", "least explained"), rows)
    console.stdout().print(
        f"{console.printable(str(out))}: typical threshold for unknown photos: {classifier.threshold:.0%} explained"
    )
    show_expected(classifier)
