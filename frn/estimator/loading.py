"""Open models that users specify, and their classes in a folder, zip, CSV or project; export models on demand."""

import csv
import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from frn.data.folders import looks_like_image, scan, why_skipped
from frn.data.names import normal
from frn.errors import FrnError
from frn.estimator.photos import expanded
from frn.images.boxes import Box, box_name
from frn.inference.any_head import OtherHeadClassifier, classifier_over
from frn.inference.classifier import Classifier
from frn.inference.extractor import Extractor, Tta
from frn.inference.feature_cache import FeatureStore
from frn.inference.onnx_runtime import MAX_BYTES, Device
from frn.inference.project import Project, is_project, load_project
from frn.models.zoo import DEFAULT_MODEL, resolve
from frn.system.extras import needs_torch
from frn.system.files import read_regular

PATHS = ("path", "image", "file", "filename", "photo")
LABELS = ("truth", "label", "class", "category")
"""Accepted column names, in order of preference: `frn score --out` writes `truth` next to its own `label`."""
BOX = ("x", "y", "width", "height")
"""Columns of a box in pixels of the upright photo (`frn.images.boxes`); empty ones mean the whole photo."""
DELIMITERS = ",;\t"
MAX_TABLE = 256 << 20


def load_extractor(model: str | Path, device: Device = "auto", tta: Tta = "none") -> Extractor:
    """Open a model in onnxruntime; a model that has not been exported yet is exported on demand.

    Raises FrnError if the model, device or tta does not exist, or the model is rejected.
    """
    for name, given, known in (("device", device, get_args(Device)), ("tta", tta, get_args(Tta))):
        if given not in known:
            raise FrnError(f"{name} must be one of {', '.join(known)}, not {given!r}")
    files = resolve(model)
    where, trusted = files.extractor or files.weights, files.shipped or files.extractor is None
    data = read_regular(files.extractor, MAX_BYTES) if files.extractor else _features_file(files.weights)
    if tta != "none":
        if not trusted:
            Extractor(data, str(where), device=device)  # an untrusted file is read only after its checks
        from frn_export.graphs.mirror import augmented

        data = augmented(data, tta)
    return Extractor(data, str(where), trusted=trusted, device=device)


def _features_file(weights: Path) -> bytes:
    """Return `features.onnx` for a model that has not been exported yet."""
    try:
        from frn_export.graphs.backbone import features_graph

        from frn.models.model import load_model
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise FrnError(needs_torch(f"{weights}: has not been exported yet, and exporting it")) from error
    return features_graph(load_model(weights)).SerializeToString(deterministic=True)


def classifier_file(classifier: Classifier) -> bytes:
    """Return `classifier.onnx` for enrolled classes. Raises FrnError without classes or if the head has no export."""
    from frn_export.graphs.classifier import classifier_graph
    from frn_export.graphs.enrolled_head import enrolled

    if isinstance(classifier, OtherHeadClassifier) and classifier.graph is None:
        from frn_export.parity import verified_head

        from frn.models.model import load_model  # the head already runs in torch

        classifier.graph, _ = verified_head(load_model(classifier.extractor.where))
    graph = classifier_graph(
        classifier.extractor.data, enrolled(classifier), rule=classifier.rule, gamma=classifier.head.gamma
    )
    return graph.SerializeToString(deterministic=True)


@dataclass(frozen=True, slots=True)
class ClassFiles:
    """Files of each class, and the project that lists them."""

    members: dict[str, list[Path]]
    skipped: list[str] = field(default_factory=list)
    """Reasons for skipped files in the class folders."""
    project: Project | None = None
    model: str | None = None
    """The project's model, in the form that `load_extractor` accepts."""


def is_table(path: Path) -> bool:
    """Return whether a path has the suffix of a table."""
    return path.suffix.lower() in (".csv", ".tsv")


def _read_table(path: Path) -> tuple[dict[str, list[Path]], list[str]]:
    """Return the files of each class in a CSV, relative to its folder, and the reasons for skipped rows.

    The first row names the columns; without names, the first column contains the paths and the second the labels. The
    columns x, y, width and height select a part of a photo.
    Raises FrnError if the CSV cannot be read, lacks these columns, or no row has both a photo and a label.
    """
    try:
        text = read_regular(path, MAX_TABLE).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FrnError(f"{path}: is not UTF-8 text. Save it as CSV in UTF-8.") from error
    first = text.partition("\n")[0]
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=max(DELIMITERS, key=first.count)))
    except csv.Error as error:
        raise FrnError(f"{path}: is not a CSV file ({error})") from error
    heads = [head.strip().lower() for head in rows[0]] if rows else []
    files, labels = (next((heads.index(name) for name in names if name in heads), None) for names in (PATHS, LABELS))
    if files is None and labels is None and len(heads) == 2 and looks_like_image(heads[0]):
        files, labels, rows = 0, 1, [[], *rows]
    if files is None or labels is None:
        raise FrnError(f"{path}: needs the columns path and label; its first row is: {', '.join(heads) or 'empty'}")
    edges = [heads.index(name) for name in BOX] if set(BOX) <= set(heads) else []
    members: dict[str, list[Path]] = {}
    skipped = []
    for number, row in enumerate(rows[1:], 2):
        if not any(row):
            continue
        name, label, *box = (row[column].strip() if column < len(row) else "" for column in (files, labels, *edges))
        if not (name and label and looks_like_image(name)):
            why = why_skipped(name) if name and label else "it has no label" if name else "it has no photo"
        elif any(box) and not all(map(re.compile(r"\d{1,6}(\.\d*)?").fullmatch, box)):
            why = f"its box is {', '.join(box)}; x, y, width and height must be pixels"
        else:
            name = box_name(name, Box(*(round(float(edge)) for edge in box))) if any(box) else name
            members.setdefault(normal(label), []).append(path.parent / expanded(name))
            continue
        skipped.append(f"{path}: row {number} is skipped: {why}")
    if not members:
        raise FrnError(f"{path}: has no row with a photo and a label")
    return dict(sorted(members.items())), skipped


def is_file_of_classes(path: Path) -> bool:
    """Return whether a file name has the suffix of a project, a CSV or a zip."""
    return is_project(path) or is_table(path) or path.suffix.lower() == ".zip"


def class_files(classes: Path) -> ClassFiles:
    """Return the files of each class in a folder or zip of class folders, a CSV of paths and labels, or a project.

    Raises FrnError if there are no classes, or it cannot be read.
    """
    if is_table(classes):
        rows, reasons = _read_table(classes)
        return ClassFiles(rows, reasons)
    if classes.is_file() and not is_file_of_classes(classes):
        raise FrnError(f"{classes}: is a file without classes. Pass a folder, zip, CSV or project.")
    if not is_project(classes):
        found = scan(classes)
        return ClassFiles(found.members, [entry.reason for entry in found.skipped])
    project = load_project(classes)
    members = {entry.name: [s.path for s in entry.supports] for entry in project.state.classes if entry.supports}
    if not members:
        raise FrnError(f"{classes}: has no class with a photo")
    empty = [f"class {entry.name!r} has no photos" for entry in project.state.classes if not entry.supports]
    return ClassFiles(members, empty, project=project, model=project.model.locate(classes.parent))


def load_classifier(
    classes: Path, model: str | None = None, device: Device = "auto", tta: Tta | None = None
) -> tuple[Classifier, list[FrnError]]:
    """Enroll the classes of a folder, zip or CSV (`class_files`), or those of a project file.

    By default, model and tta are the project's, or the default model and "none" for a folder. Returns the classifier,
    and the reasons for skipped files. Raises FrnError if there are no classes, or a project was made with another
    model.
    """
    found = class_files(classes)  # before loading the model, to report a wrong path at once
    name, project = model or found.model or DEFAULT_MODEL, found.project
    tta = tta or (project.model.tta if project else "none")
    classifier = classifier_over(load_extractor(name, device, tta), FeatureStore())
    skipped = map(FrnError, found.skipped)
    if project is None:
        return classifier, [*classifier.enroll(found.members), *skipped]
    project.model.check(classifier.extractor.plain_sha256, classes, name)
    classifier.kept_head = project.document.get("head")
    return classifier, [*classifier.enroll_state(project.state), *skipped]
