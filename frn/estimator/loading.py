"""Open models that users specify, and enroll their classes; export models on demand."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

from frn.errors import FrnError
from frn.features.extractor import Extractor, Tta
from frn.features.feature_cache import FeatureStore
from frn.features.onnx_runtime import MAX_MODEL_BYTES, Device
from frn.inference.classifier import Classifier
from frn.inference.enrollment import listed_state
from frn.models.zoo import DEFAULT_MODEL, ModelFiles, resolve
from frn.projects.class_files import class_files
from frn.projects.session import Find
from frn.system.extras import needs_torch
from frn.system.file_sets import read_member


def load_extractor(model: str | Path, device: Device = "auto", tta: Tta = "none", threads: int = 0) -> Extractor:
    """Open a model in onnxruntime; a model that has not been exported yet is exported on demand.

    `threads` is as for `Extractor`.

    Raises FrnError if the model, device or tta does not exist, or the model is rejected.
    """
    for name, value, known in (("device", device, get_args(Device)), ("tta", tta, get_args(Tta))):
        if value not in known:
            raise FrnError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    files = resolve(model)
    if files.extractor and tta == "none":
        return Extractor.open(files.extractor, trusted=files.shipped, device=device, threads=threads)
    return export_on_demand(files, device, tta, threads)


def export_on_demand(files: ModelFiles, device: Device, tta: Tta, threads: int = 0) -> Extractor:
    """Open a model that has not been exported yet, or has no such test-time augmentation built in."""
    if files.extractor is None:
        where, data, trusted = files.weights, _features_file(files.weights), True
    else:
        where, data, trusted = files.extractor, read_member(files.extractor, MAX_MODEL_BYTES), files.shipped
    plain = data
    if tta != "none":
        if not trusted:
            Extractor(data, str(where), device=device)  # an untrusted file is read only after its checks
        from frn_export.graphs.mirror import augmented

        data = augmented(data, "views" if tta == "auto" else tta)
    extractor = Extractor(data, str(where), trusted=trusted, device=device, threads=threads)
    if tta != "auto":
        return extractor
    first = Extractor(plain, str(where), trusted=trusted, device=device, threads=threads)
    first.tta, first.closer = tta, extractor
    return first


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

    if classifier.other and classifier.other.graph is None:
        from frn_export.parity import verified_head

        from frn.models.model import load_model  # the head already runs in torch

        classifier.other.graph, _ = verified_head(load_model(classifier.extractor.where))
    graph = classifier_graph(
        classifier.extractor.data, enrolled(classifier), rule=classifier.rule, gamma=classifier.head.gamma
    )
    return graph.SerializeToString(deterministic=True)


def load_classifier(
    classes: Path,
    model: str | None = None,
    device: Device = "auto",
    tta: Tta | None = None,
    level: int | None = None,
    find: Find | None = None,
) -> tuple[Classifier, list[FrnError]]:
    """Enroll the classes of a folder, zip, CSV or project (`class_files`).

    By default, model, tta and find are the project's, or the default model and "none" for a folder. Returns the
    classifier, and the reasons for skipped files. Raises FrnError if there are no classes, or a project was made with
    another model.
    """
    files = class_files(classes, level)  # before loading the model, to report a wrong path immediately
    name, project = model or files.model or DEFAULT_MODEL, files.project
    tta = tta or (project.model.tta if project else "none")
    classifier = Classifier(load_extractor(name, device, tta), FeatureStore())
    notes, skipped = map(FrnError, files.notes), map(FrnError, files.skipped)
    state = project.state if project else listed_state(files.members, files.others)
    if project:
        project.model.check(classifier.extractor.plain_sha256, classes, name)
    return classifier, [*notes, *classifier.enroll_state(replace(state, search=find or state.search)), *skipped]
