"""`frn export`: files that any onnxruntime runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frn.cli.choices import ExportPrecision
from frn.cli.console import print_json, progress_bar, report_left_out, stdout, user_errors
from frn.errors import FrnError
from frn.zoo import DEFAULT_MODEL

if TYPE_CHECKING:
    from frn_export.int8_accuracy import Cost
    from frn_export.parity import Difference

    from frn.model import Model

COMPARED = 5
"""Photos that classifier.onnx is tried on: one each of so many classes."""


def export(
    out: Annotated[Path, typer.Option(help="Folder for the files.")],
    model: Annotated[
        str | None, typer.Option(help="Model file, run folder or shipped name.", show_default=DEFAULT_MODEL)
    ] = None,
    classes: Annotated[
        Path | None,
        typer.Option(help="Folder of class folders, or a project: also write classifier.onnx.", show_default=False),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Share of a photo that a class must explain; noted in classifier.onnx.",
            show_default="the project's, or calibrated from the photos",
        ),
    ] = None,
    precision: Annotated[
        ExportPrecision, typer.Option(help="fp16: half the size. int8: a quarter, and faster; needs --calibrate.")
    ] = "fp32",
    calibrate: Annotated[
        Path | None,
        typer.Option(help="Folder of class folders that int8 is tuned and judged on.", show_default=False),
    ] = None,
    max_drop: Annotated[float, typer.Option(min=0, help="Points of accuracy that int8 may lose.")] = 1.0,
    weights: Annotated[
        bool, typer.Option("--weights", help="Also write model.safetensors for torch; with fp16, half the size.")
    ] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="ONNX, opset 18 (the one format there is).")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Write ONNX files that any onnxruntime runs: features.onnx, head.onnx and, with classes, classifier.onnx.

    Each is one self-contained file in standard operators; README.md beside them says how to call them. Every file is
    compared with what it was made from, and nothing is written unless all agree.
    """
    with user_errors():
        _check_options(out, precision, calibrate)

        from frn_export.card import model_card
        from frn_export.graphs import head_parameters
        from frn_export.head import head_graph
        from frn_export.parity import compare_head

        from frn.files import write_atomically
        from frn.loading import class_files
        from frn.model import load_model, save_model

        enrolled = None if classes is None else class_files(classes)
        loaded = load_model(model or (enrolled.model if enrolled else None) or DEFAULT_MODEL)
        features, difference, cost = _features(loaded, precision, calibrate, max_drop)
        graphs, differences = {"features": features}, {"difference": difference}
        if loaded.config.method == "frn":
            graphs["head"] = head_graph(head_parameters(loaded)).SerializeToString(deterministic=True)
            differences["head_difference"] = _accepted(compare_head(loaded, graphs["head"]))
        if enrolled is not None:
            graphs["classifier"], differences["classifier_difference"] = _classifier(
                features, enrolled.members, enrolled.threshold if threshold is None else threshold, precision
            )
        card = model_card(graphs, loaded.record, precision=precision, cost=str(cost or ""))
        for name, graph in graphs.items():
            write_atomically(out / f"{name}.onnx", graph)
        if weights:
            save_model(loaded, out / "model.safetensors", half=precision == "fp16")
        write_atomically(out / "README.md", card)
    if as_json:
        paths = {name: str(out / f"{name}.onnx") for name in graphs} | {"card": str(out / "README.md")}
        if weights:
            paths["weights"] = str(out / "model.safetensors")
        shares = {name: found.share for name, found in differences.items()}
        judged = {"accuracy_fp32": cost.before, "accuracy": cost.after, "drop": cost.drop} if cost else {}
        print_json({**paths, "precision": precision, **shares, **judged})
        return
    for name, graph in graphs.items():
        stdout().print(f"{out / f'{name}.onnx'}  {len(graph) / 1e6:.3f} MB", markup=False)
    for found in differences.values():
        stdout().print(str(found))
    if cost:
        stdout().print(f"int8: {cost}")


def _check_options(out: Path, precision: ExportPrecision, calibrate: Path | None) -> None:
    from frn_export.card import TITLE

    if precision == "int8" and calibrate is None:
        raise FrnError(
            "--precision int8 needs --calibrate FOLDER: class folders with at least 8 images each, of the kind the "
            "model is for. A part of them tunes int8, the others judge what it costs."
        )
    if precision != "int8" and calibrate is not None:
        raise FrnError(f"--calibrate is for --precision int8; {precision} needs no images. Leave it out.")
    card = out / "README.md"
    if card.is_file() and not card.read_bytes().startswith(TITLE.encode()):
        raise FrnError(f"{card}: is not the README of an export and would be overwritten. Choose another --out.")


def _features(
    model: "Model", precision: ExportPrecision, calibrate: Path | None, max_drop: float
) -> "tuple[bytes, Difference, Cost | None]":
    """The extractor in its precision, how far it is from torch, and what int8 costs."""
    from frn_export.graphs import features_graph
    from frn_export.parity import HALF_TOLERANCE, compare_features
    from frn_export.quantise import half

    features = features_graph(model).SerializeToString(deterministic=True)
    difference = _accepted(compare_features(model, features))
    if precision == "fp16":
        features = half(features)
        difference = _accepted(compare_features(model, features, allowed=HALF_TOLERANCE))
    if calibrate is None:
        return features, difference, None
    features, cost = _int8(model, features, calibrate)
    cost.require(max_drop)
    return features, difference, cost


def _int8(model: "Model", features: bytes, calibrate: Path) -> "tuple[bytes, Cost]":
    from frn_export.int8_accuracy import draw_sample, measure_cost
    from frn_export.quantise import int8

    with progress_bar("decoding") as decoding:
        sample = draw_sample(calibrate, model.config.transform, progress=decoding)
    report_left_out([entry.reason for entry in sample.broken])
    quantised = int8(features, sample.calibration)
    with progress_bar("judging int8") as judging:
        return quantised, measure_cost(model.head, features, quantised, sample, progress=judging)


def _classifier(
    features: bytes, members: dict[str, list[Path]], threshold: float | None, precision: ExportPrecision
) -> "tuple[bytes, Difference]":
    from frn_export.classifier import classifier_graph
    from frn_export.parity import CLASSIFIER_TOLERANCE, COARSE_TOLERANCE, compare_classifier

    from frn.inference.classifier import Classifier
    from frn.inference.extractor import Extractor

    classifier = Classifier(Extractor(features, "the extractor", trusted=True))
    report_left_out([str(error) for error in classifier.enroll(members)])
    classifier.threshold_override = threshold
    graph = classifier_graph(features, classifier.classes, threshold=classifier.threshold, gamma=classifier.head.gamma)
    photos = [entry.supports[0].path for entry in classifier.state.classes[:COMPARED]]
    allowed = COARSE_TOLERANCE if precision == "int8" else CLASSIFIER_TOLERANCE
    data = graph.SerializeToString(deterministic=True)
    return data, _accepted(compare_classifier(classifier, data, photos, allowed=allowed))


def _accepted(difference: "Difference") -> "Difference":
    difference.require()
    return difference
