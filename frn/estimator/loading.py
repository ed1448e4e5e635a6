"""Opening what people name: a model as an extractor, a folder of class folders or a project as a classifier."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from frn.data.folders import scan
from frn.errors import FrnError
from frn.estimator import on_demand
from frn.estimator.other_heads import classifier_over
from frn.inference.classifier import Classifier
from frn.inference.extractor import Extractor, Tta
from frn.inference.feature_cache import FeatureStore
from frn.inference.onnx_runtime import MAX_BYTES, Device
from frn.inference.project import ModelReference, is_project, load_project
from frn.models.zoo import DEFAULT_MODEL, resolve
from frn.system.files import read_regular


def load_extractor(model: str | Path, device: Device = "auto", tta: Tta = "none") -> Extractor:
    """Open a model to run in onnxruntime; one that is not exported yet is exported on demand.

    FrnError if there is no such model, it is refused, or there is no such device or tta.
    """
    for name, given, known in (("device", device, get_args(Device)), ("tta", tta, get_args(Tta))):
        if given not in known:
            raise FrnError(f"{name} is one of {', '.join(known)}, not {given!r}")
    files = resolve(model)
    where, trusted = files.extractor or files.weights, files.shipped or files.extractor is None
    data = read_regular(files.extractor, MAX_BYTES) if files.extractor else on_demand.features_file(files.weights)
    if tta == "hflip":
        if not trusted:
            Extractor(data, str(where), device=device)  # a stranger's file is read here only after its checks
        data = on_demand.mirrored_file(data)
    return Extractor(data, str(where), trusted=trusted, device=device)


@dataclass(frozen=True, slots=True)
class ClassFiles:
    """What a folder of class folders or a project says of its classes."""

    members: dict[str, list[Path]]
    model: str | None = None
    """The project's own, as `load_extractor` takes it."""
    threshold: float | None = None
    tta: Tta = "none"
    """As the project's answers are given."""
    skipped: list[str] = field(default_factory=list)
    """Why other files in a class folder were skipped."""
    made_with: ModelReference | None = None
    """As the project remembers its model."""

    def is_made_with(self, model: str | None) -> bool:
        """Return whether a model, none for the project's own, is the one whose answers the threshold was set for."""
        return not model or not self.made_with or load_extractor(model, "cpu").plain_sha256 == self.made_with.sha256


def class_files(classes: Path) -> ClassFiles:
    """The files of each class of a folder of class folders, or of a project.

    FrnError if there are none, or the project cannot be read.
    """
    if not is_project(classes):
        found = scan(classes)
        return ClassFiles(found.members, skipped=[entry.reason for entry in found.skipped])
    project = load_project(classes)
    members = {entry.name: [support.path for support in entry.supports] for entry in project.state.classes}
    model = project.model
    own = model.locate(classes.parent)
    return ClassFiles(members, own, project.state.threshold, model.tta, made_with=model)


def load_classifier(
    classes: Path, model: str | None = None, device: Device = "auto", tta: Tta = "none"
) -> tuple[Classifier, list[FrnError]]:
    """Enroll a folder of class folders, or the classes of a project file.

    The model is the project's own unless another is given, or the default one. Returns the classifier, and why some of
    its files were skipped. FrnError if there are no classes, or a project was made with another model.
    """
    if not is_project(classes):
        found = scan(classes)  # before the model is loaded: a wrong path is told at once
        classifier = classifier_over(load_extractor(model or DEFAULT_MODEL, device, tta), FeatureStore())
        return classifier, classifier.enroll(found.members) + [FrnError(entry.reason) for entry in found.skipped]
    project = load_project(classes)
    name = model or project.model.locate(classes.parent)
    if model is None and project.model.tta == "hflip":
        tta = "hflip"  # as its answers were given
    extractor = load_extractor(name, device, tta)
    project.model.check(extractor.plain_sha256, classes, name)
    classifier = classifier_over(extractor, FeatureStore())
    classifier.kept_head = project.document.get("head")
    return classifier, classifier.enroll_state(project.state)
