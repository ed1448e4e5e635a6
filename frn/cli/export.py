"""`frn export`: files that any onnxruntime runs."""

from pathlib import Path
from typing import Annotated

import typer

from frn.cli.console import print_json, report_left_out, stdout, user_errors
from frn.cli.extractors import DEFAULT_MODEL


def export(
    out: Annotated[Path, typer.Option(help="Folder for the files.")],
    model: Annotated[str, typer.Option(help="Model file, run folder or shipped name.")] = DEFAULT_MODEL,
    classes: Annotated[
        Path | None,
        typer.Option(help="Folder of class folders: also write classifier.onnx.", show_default=False),
    ] = None,
    threshold: Annotated[float, typer.Option(min=0, max=1, help="Noted in classifier.onnx.")] = 0.0,
    onnx: Annotated[bool, typer.Option("--onnx", help="ONNX, opset 18 (the one format there is).")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Write ONNX files that any onnxruntime runs: features.onnx, head.onnx and, with classes, classifier.onnx.

    Each is one self-contained file in standard operators. The extractor is compared with torch before it is kept.
    """
    with user_errors():
        from frn_export.graphs import features_graph, head_parameters
        from frn_export.head import head_graph
        from frn_export.parity import compare_features

        from frn.files import write_atomically
        from frn.model import load_model

        loaded = load_model(model)
        graphs = {"features": features_graph(loaded).SerializeToString(deterministic=True)}
        if loaded.config.method == "frn":
            graphs["head"] = head_graph(head_parameters(loaded)).SerializeToString(deterministic=True)
        parity = compare_features(loaded, graphs["features"])
        parity.require()
        if classes is not None:
            graphs["classifier"] = _classifier(graphs["features"], classes, threshold)
        for name, graph in graphs.items():
            write_atomically(out / f"{name}.onnx", graph)
    if as_json:
        paths = {name: str(out / f"{name}.onnx") for name in graphs}
        print_json({**paths, "difference": parity.features})
        return
    for name, graph in graphs.items():
        stdout().print(f"{out / f'{name}.onnx'}  {len(graph) / 1e6:.3f} MB", markup=False)
    stdout().print(f"features within {parity.features:.1e} of torch in float64, as a share of the largest")


def _classifier(features: bytes, folder: Path, threshold: float) -> bytes:
    from frn_export.classifier import classifier_graph

    from frn.data.folders import scan
    from frn.inference.classifier import Classifier
    from frn.inference.extractor import Extractor

    classifier = Classifier(Extractor(features, "the extractor", trusted=True))
    report_left_out([str(error) for error in classifier.enroll(scan(folder).members)])
    graph = classifier_graph(features, classifier.classes, threshold=threshold)
    return graph.SerializeToString(deterministic=True)
