"""From what people name to what runs: a model to an extractor, a folder or a project to a classifier."""

from dataclasses import dataclass
from pathlib import Path

from frn.data.folders import scan
from frn.errors import FrnError
from frn.inference.classifier import Classifier
from frn.inference.extractor import Extractor
from frn.inference.features import FeatureStore
from frn.inference.project import ModelReference, is_project, load_project, write_path
from frn.inference.runtime import Device
from frn.shipped import DEFAULT_MODEL, find_model, shipped_extractors


def find_extractor(model: str | Path, device: Device = "auto") -> Extractor:
    """Open a shipped name, a `features.onnx`, or (through torch) a model file or run folder.

    Raises:
        FrnError: if there is no such model, or it is refused.
    """
    shipped = shipped_extractors()
    if str(model) in shipped:
        return Extractor.open(shipped[str(model)], trusted=True, device=device)
    path = Path(model)
    if path.suffix.lower() == ".onnx":
        if not path.is_file():
            raise FrnError(f"{path}: there is no such file")
        return Extractor.open(path, device=device)
    path = find_model(model)  # before torch: a wrong name is told at once

    from frn_export.graphs import features_graph

    from frn.model import load_model

    graph = features_graph(load_model(path)).SerializeToString(deterministic=True)
    return Extractor(graph, str(path), trusted=True, device=device)


def refer_to(model: str, extractor: Extractor, folder: Path) -> ModelReference:
    """How a project in `folder` remembers a model: by its shipped name, or where it is from there."""
    id_ = model if model in shipped_extractors() else write_path(Path(model).absolute(), folder.absolute()).get("path")
    if id_ is None:
        raise FrnError(f"{model}: a project cannot refer to a model whose path is not valid text. Rename it.")
    return ModelReference(id_, extractor.sha256, extractor.transform)


def referred(reference: ModelReference, folder: Path) -> str:
    """The model that a project in `folder` remembers, as `find_extractor` takes it."""
    return reference.id if reference.id in shipped_extractors() else str(folder / reference.id)


@dataclass(frozen=True, slots=True)
class ClassFiles:
    """What a folder of class folders or a project says of its classes."""

    members: dict[str, list[Path]]
    model: str | None = None
    """The project's own, as `find_extractor` takes it."""
    threshold: float | None = None


def class_files(classes: Path) -> ClassFiles:
    """The files of each class of a folder of class folders, or of a project.

    Raises:
        FrnError: if there are none, or the project cannot be read.
    """
    if not is_project(classes):
        return ClassFiles(scan(classes).members)
    project = load_project(classes)
    members = {entry.name: [support.path for support in entry.supports] for entry in project.state.classes}
    return ClassFiles(members, referred(project.model, classes.parent), project.state.threshold)


def open_classifier(
    classes: Path, model: str | None = None, device: Device = "auto"
) -> tuple[Classifier, list[FrnError]]:
    """Enroll a folder of class folders, or the classes of a project file.

    Args:
        classes: the folder or the file.
        model: as `find_extractor` takes it; by default the project's own, or the default model.
        device: where the extractor runs.

    Returns:
        The classifier, and why some of its files were left out.

    Raises:
        FrnError: if there are no classes, or a project was made with another model.
    """
    if not is_project(classes):
        members = scan(classes).members  # before the model is loaded: a wrong path is told at once
        classifier = Classifier(find_extractor(model or DEFAULT_MODEL, device), FeatureStore())
        return classifier, classifier.enroll(members)
    project = load_project(classes)
    name = model or referred(project.model, classes.parent)
    extractor = find_extractor(name, device)
    project.model.check(extractor.sha256, classes, name)
    classifier = Classifier(extractor, FeatureStore())
    return classifier, classifier.enroll_state(project.state)
