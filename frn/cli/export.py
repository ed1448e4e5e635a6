"""`frn export`: files that any onnxruntime runs."""

from pathlib import Path
from typing import Annotated

import typer

from frn.cli.console import print_json, stdout, user_errors
from frn.cli.extractors import DEFAULT_MODEL


def export(
    out: Annotated[Path, typer.Option(help="Folder for features.onnx.")],
    model: Annotated[str, typer.Option(help="Model file, run folder or shipped name.")] = DEFAULT_MODEL,
    onnx: Annotated[bool, typer.Option("--onnx", help="ONNX, opset 18 (the one format there is).")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Write a model's feature extractor as one self-contained ONNX file, checked against torch before it is kept."""
    with user_errors():
        from frn_export.graphs import features_graph
        from frn_export.parity import compare_features

        from frn.files import write_atomically
        from frn.model import load_model

        loaded = load_model(model)
        graph = features_graph(loaded).SerializeToString(deterministic=True)
        parity = compare_features(loaded, graph)
        parity.require()
        write_atomically(out / "features.onnx", graph)
    if as_json:
        print_json({"features": str(out / "features.onnx"), "bytes": len(graph), "difference": parity.features})
        return
    stdout().print(
        f"{out / 'features.onnx'}: {len(graph) / 1e6:.2f} MB, within {parity.features:.1e} of torch in float64",
        markup=False,
    )
