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
    from frn.projects.class_files import ClassFiles


def enroll(
    sources: Annotated[list[str], typer.Argument(help="Class folders as for classify, or NAME=FOLDER...")],
    out: Annotated[Path, typer.Option(help="Project file to write (.frn.json).")],
    model: options.ClassifierModel = None,
    level: options.Level = None,
    threshold: options.Threshold = None,
    tta: options.TtaName = None,
    find: options.FindName = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a project; the old one is kept as .bak.")] = False,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Save classes from folders of photos in a project file.

    Use the project with `frn classify`, `frn explain`, `frn export` and frn-tui. It stores the paths of the photos, not
    the photos. To enroll a project again, for example with a different model, pass the project alone: the copy keeps
    everything else.

    For each class, the table shows how much of a photo the other photos of the class reconstruct. A low minimum
    suggests a photo in the wrong class. At the end, up to three useful changes of the examples are listed.
    """
    from frn.estimator.loading import load_extractor
    from frn.features.feature_cache import FeatureStore
    from frn.inference.classifier import Classifier
    from frn.inference.enrollment import listed_state
    from frn.projects.names import lookalikes
    from frn.projects.project import ModelReference, Project, is_project, save_project
    from frn.projects.session import with_unused

    if not is_project(out):
        raise FrnError(f"{out}: a project must end in .frn.json")
    require_writable(out, replace=True)
    if out.exists() and not replace:
        raise FrnError(f"{out}: already exists. --replace replaces it and keeps the old one as {out.name}.bak")
    files = _found(sources, level)
    before, name = files.project, model or files.model or DEFAULT_MODEL
    earlier = before.model.tta if before else "none"
    classifier = Classifier(load_extractor(name, device, tta or earlier), FeatureStore())
    with console.live_text(f"enrolling {sum(map(len, files.members.values())):,} photos"):
        if before is None:
            listed = listed_state(files.members, files.others)
        else:  # the threshold belongs to the model, and the head is chosen again
            same = classifier.extractor.plain_sha256 == before.model.sha256
            listed = dataclasses.replace(before.state, head=None, threshold=before.state.threshold if same else None)
        notes = classifier.enroll_state(dataclasses.replace(listed, search=find or listed.search))
    skipped = [*map(str, notes), *files.skipped]
    console.report_skipped([*files.notes, *skipped, *lookalikes(files.members)])
    if threshold is not None:
        classifier.threshold_override = threshold
    state = dataclasses.replace(classifier.state, threshold=classifier.threshold_override)
    if before:
        state = with_unused(state, before.state, classifier.copies)
    document = before.document if before else {}
    reference = ModelReference.of(name, classifier.extractor, out.parent)
    save_project(out, Project(reference, state, document), replace=replace)
    if as_json:
        console.print_json(_summary(out, classifier, len(skipped)))
    else:
        _show(out, classifier)


def _found(sources: list[str], level: int | None) -> "ClassFiles":
    """Return the classes of all sources; a project alone keeps everything else that it contains."""
    from frn.projects.class_files import ClassFiles, class_files
    from frn.projects.folder_tree import photos_below
    from frn.projects.project import is_project

    if len(sources) == 1 and is_project(Path(sources[0])):
        return class_files(Path(sources[0]))
    joined = ClassFiles({})
    for source in sources:
        path = Path(source)
        name, equals, folder = source.partition("=")
        if is_project(path) or path.exists() or not equals:
            files = class_files(path, level)
        else:
            photos, skipped = photos_below(Path(folder))
            if not photos:
                raise FrnError(f"{folder}: contains no images")
            files = ClassFiles({name: photos}, skipped=list(map(str, skipped)))
        for twin in files.members.keys() & joined.members.keys():
            raise FrnError(f"class {twin!r} occurs twice: in {source} and in an earlier source")
        joined.members |= files.members
        joined.others += files.others
        joined.skipped += files.skipped
        joined.notes += files.notes
    return joined


def _summary(out: Path, classifier: "Classifier", skipped: int) -> dict[str, Any]:
    from frn.inference.lessons import advise

    explained = classifier.leave_one_out
    classes = {
        entry.name: {"images": len(entry.supports), "explained": list(map(float, explained.get(entry.name, ())))}
        for entry in classifier.state.classes
    }
    summary = {"project": str(out), "threshold": classifier.threshold, "skipped": skipped, "classes": classes}
    head = dataclasses.asdict(classifier.head)
    advice = advise(classifier)
    return rounded(summary | {"expected": expectation(classifier), "head": head, "advice": advice})


def _show(out: Path, classifier: "Classifier") -> None:
    import numpy as np

    from frn.inference.lessons import advise

    rows = []
    for entry in classifier.state.classes:
        shares = classifier.leave_one_out.get(entry.name)
        cells = ("", "only one image: leave-one-out is not possible" if shares is None else "none was compared")
        if shares is not None and not np.isnan(shares).all():
            least = entry.supports[np.nanargmin(shares)].path.name
            cells = (f"{np.nanmean(shares):.0%} on average", f"{np.nanmin(shares):.0%} {least}")
        rows.append((entry.name, str(len(entry.supports)), *cells))
    console.print_table(("class", "images", "explained by the others", "least explained"), rows)
    console.stdout().print(f"{console.printable(str(out))}: photos below {classifier.threshold:.0%} known are unknown")
    show_expected(classifier)
    for line in advise(classifier):
        console.stdout().print(f"useful: {console.printable(line)}")
