"""Verified export: every file is checked against its original, and nothing is written unless all agree."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.errors import FrnError
from frn.evaluation.evaluate_model import ProgressBars, no_bars
from frn.features.extractor import Extractor, Tta, seen_by
from frn.features.onnx_runtime import open_session, run_session
from frn.heads.frn import FRNHead
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Classifier
from frn.models.model import Model, serialise
from frn.projects.session import State
from frn.ridge.parameters import HeadParameters
from frn.system.file_sets import require_writable_set, write_set
from frn_export import parity, quantise
from frn_export.card import model_card
from frn_export.difference import CLASSIFIER_TOLERANCE, Difference, compare_answers
from frn_export.graphs.backbone import features_graph
from frn_export.graphs.classifier import batch_graph, classifier_graph, require_text
from frn_export.graphs.enrolled_head import classifier_with, enrolled
from frn_export.graphs.finder import finder_graph
from frn_export.graphs.head import head_graph
from frn_export.graphs.mirror import augmented
from frn_export.graphs.prepare import preprocess_graph
from frn_export.int8_accuracy import Cost, draw_sample, measure_cost

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportOptions:
    """Contents and precision of an export."""

    precision: Literal["fp32", "fp16", "int8"] = "fp32"
    """fp16 halves the size of the weights; int8 also computes in 8 bits, and needs `calibrate`."""
    calibrate: Path | None = None  # folder of class folders on which int8 is calibrated and measured
    max_drop: float = 1.0  # largest loss of accuracy allowed for int8, in percentage points
    threshold: float | None = None  # `known` below which a photo is unknown, for classifier.onnx; None: calibrated
    weights: bool = False  # also write model.safetensors for torch; fp16 halves its size
    replace: bool = False  # also overwrite files that frn did not write
    tta: Tta = "none"  # test-time augmentation to build into features.onnx and the files made from it

    def __post_init__(self) -> None:
        if self.precision == "int8" and self.calibrate is None:
            raise FrnError(
                "--precision int8 needs --calibrate FOLDER: class folders with at least 8 images each, with photos "
                "like those you will classify. Some of them calibrate int8, the others measure its loss of accuracy."
            )
        if self.precision != "int8" and self.calibrate is not None:
            raise FrnError(f"--calibrate is for --precision int8; {self.precision} needs no images. Remove it.")


@dataclass(frozen=True, slots=True)
class Exported:
    """Exported files and the differences of the graphs from their originals, under their names in JSON."""

    paths: dict[str, Path]
    differences: dict[str, Difference]
    cost: Cost | None  # cost of int8
    removed: list[Path]  # files removed from the earlier export


def export_model(
    model: Model,
    out: Path,
    options: ExportOptions,
    classes: Mapping[str, Sequence[Path]] | State | None = None,
    *,
    bars: ProgressBars = no_bars,
    warn: Callable[[Sequence[str]], None] = lambda reasons: None,
) -> Exported:
    """Write a model as ONNX files and a README.md, with both classifiers if classes (or those of a project) are given.

    The files are preprocess.onnx, features.onnx and head.onnx. The model must be in evaluation mode; `warn` receives
    the reasons for skipped images of the classes. Raises FrnError if a file differs from its original, or int8 loses
    too much accuracy; then nothing is written. A head that cannot be exported is skipped with a warning, unless classes
    need it. `SHA256SUMS` lists the files. Those that only the earlier export lists are removed, since they would belong
    to another model.
    """
    names = [entry.name for entry in classes.classes] if isinstance(classes, State) else classes
    require_text(names or ())
    readme = out / "README.md"
    certain = ["features.onnx", "preprocess.onnx", "head.onnx", readme.name]
    certain += ["classifier.onnx", "classifier-batch.onnx"] if classes is not None else []
    certain += ["finder.onnx"] if isinstance(classes, State) and classes.search != "none" else []
    certain += ["model.safetensors"] if options.weights else []
    require_writable_set(out, certain, replace=options.replace)
    features, cost = features_graph(model).SerializeToString(deterministic=True), None
    differences = {"difference": parity.compare_features(model, features).require()}
    if options.precision == "fp16":
        features = quantise.half(features)
        compared = parity.compare_features(model, features, allowed=parity.HALF_TOLERANCE)
        differences["difference"] = compared.require()
    elif options.calibrate is not None:
        features, cost = _int8(model, features, options.calibrate, bars, warn)
        cost.require(options.max_drop)
    features = augmented(features, options.tta)
    transform = seen_by(model.config.transform, options.tta)
    graphs = {"features": features, "preprocess": preprocess_graph(transform).SerializeToString(deterministic=True)}
    differences["preprocess_difference"] = _compare_preprocess(transform, graphs["preprocess"]).require()
    if isinstance(model.head, FRNHead):
        graphs["head"] = head_graph(HeadParameters.of(model.head)).SerializeToString(deterministic=True)
        differences["head_difference"] = parity.compare_head(model, graphs["head"]).require()
    else:
        try:
            graphs["head"], differences["head_difference"] = parity.verified_head(model)
        except FrnError as error:
            if classes is not None:
                raise
            warn([f"{error}. frn runs it in torch, from the model file or from model.safetensors (--weights)."])
    if classes is not None:
        extractor = Extractor(features, "the extractor", trusted=True)
        classifier = Classifier(extractor) if extractor.head else classifier_with(extractor, graphs["head"])
        notes = classifier.enroll_state(classes) if isinstance(classes, State) else classifier.enroll(classes)
        warn([str(note) for note in notes])
        classifier.threshold_override = options.threshold
        allowed = parity.COARSE_TOLERANCE if options.precision == "int8" else CLASSIFIER_TOLERANCE
        held, rule, gamma = enrolled(classifier), classifier.rule, classifier.head.gamma
        built = {
            "classifier": classifier_graph(features, held, rule=rule, gamma=gamma),
            "classifier-batch": batch_graph(extractor, held, rule=rule, gamma=gamma),
        }
        if classifier.state.search != "none":
            graphs["finder"] = finder_graph(
                classifier.finder, classifier.classes, classifier.sought.weights
            ).SerializeToString(deterministic=True)
        for name, graph in built.items():
            graphs[name] = graph.SerializeToString(deterministic=True)
            run = class_error_of(graphs[name], name, extractor.transform)
            difference = compare_answers(classifier, f"{name}.onnx", run, allowed).require()
            differences[f"{name.rpartition('-')[2]}_difference"] = difference
    card = model_card(graphs, model.record, precision=options.precision, cost=str(cost or ""))
    paths = {name: out / f"{name}.onnx" for name in graphs} | {"card": readme}
    files = {paths[name].name: data for name, data in graphs.items()} | {readme.name: card.encode()}
    if options.weights:
        paths["weights"] = out / "model.safetensors"
        files[paths["weights"].name] = serialise(model, half=options.precision == "fp16")
    removed = write_set(out, files, replace=options.replace)
    return Exported(paths, differences, cost, [out / name for name in removed])


def _compare_preprocess(transform: EvaluationTransform, graph: bytes) -> Difference:
    """Compare preprocessing on images to shrink or enlarge and on strips; each of two passes may round otherwise."""
    session = open_session(graph, "preprocess.onnx", device="cpu", threads=1)
    random, largest = np.random.default_rng(0), 0.0
    for width, height in (
        (3 * transform.length, 2 * transform.length),
        (transform.size // 2, transform.size),
        (400, 9),
    ):
        pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        (images,) = run_session(session, ["images"], {"image": pixels})
        wanted = transform(Image.fromarray(pixels)).transpose(2, 0, 1).astype(np.float64) / 255
        largest = max(largest, float(np.abs(images[0] - wanted).max()))
    return Difference("preprocess.onnx", largest, 2.001 / 255, "white")


def _int8(
    model: Model, features: bytes, calibrate: Path, bars: ProgressBars, warn: Callable[[Sequence[str]], None]
) -> tuple[bytes, Cost]:
    """Return the int8 extractor and its cost in accuracy."""
    with bars("decoding") as decoding:
        sample = draw_sample(calibrate, model.config.transform, progress=decoding)
    warn([entry.reason for entry in sample.broken])
    quantised = quantise.int8(features, sample.calibration)
    with bars("judging int8") as judging:
        return quantised, measure_cost(model.head, features, quantised, sample, progress=judging)


def class_error_of(data: bytes, name: str, transform: EvaluationTransform) -> Callable[[Image.Image], Array]:
    """Return a function that runs a classifier's graph on a photo."""
    session = open_session(data, name, device="cpu")

    def run(photo: Image.Image) -> Array:
        if name == "classifier":
            inputs: dict[str, Array] = {"image": np.asarray(photo)}
        else:
            inputs = {"images": transform(photo).transpose(2, 0, 1)[None].astype(np.float32) / 255}
        (errors,) = run_session(session, ["class_error"], inputs)
        return errors.ravel()

    return run
