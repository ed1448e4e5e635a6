"""`frn export`: files that any onnxruntime runs."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from frn.cli.console import note, print_json, progress_bar, report_left_out, stdout, user_errors
from frn.cli.options import AsJson
from frn.zoo import DEFAULT_MODEL


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
        Literal["fp32", "fp16", "int8"],
        typer.Option(help="fp16: half the size. int8: a quarter, and faster; needs --calibrate."),
    ] = "fp32",
    calibrate: Annotated[
        Path | None, typer.Option(help="Folder of class folders that int8 is tuned and judged on.", show_default=False)
    ] = None,
    max_drop: Annotated[float, typer.Option(min=0, help="Points of accuracy that int8 may lose.")] = 1.0,
    weights: Annotated[
        bool, typer.Option("--weights", help="Also write model.safetensors for torch; with fp16, half the size.")
    ] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="ONNX, opset 18 (the one format there is).")] = True,
    as_json: AsJson = False,
) -> None:
    """Write ONNX files that any onnxruntime runs: features.onnx, head.onnx and, with classes, classifier.onnx.

    Each is one self-contained file in standard operators; README.md beside them says how to call them. Every file is
    compared with what it was made from, and nothing is written unless all agree. An export that was in --out before is
    replaced, its classifier.onnx too.
    """
    with user_errors():
        from frn_export.export import ExportOptions, export_model

        from frn.loading import class_files
        from frn.model import load_model

        options = ExportOptions(
            precision=precision, calibrate=calibrate, max_drop=max_drop, threshold=threshold, weights=weights
        )
        found = None if classes is None else class_files(classes)
        if found and threshold is None:
            options = replace(options, threshold=found.threshold)
        loaded = load_model(model or (found.model if found else None) or DEFAULT_MODEL)
        members = found.members if found else None
        report_left_out(found.skipped if found else [])
        exported = export_model(loaded, out, options, members, bars=progress_bar, warn=report_left_out)
    for path in exported.removed:
        note(f"removed {path}: it was of the export before this one")
    cost = exported.cost
    if as_json:
        paths = {**exported.graphs, "card": exported.card}
        if exported.weights:
            paths["weights"] = exported.weights
        shares = {name: difference.share for name, difference in exported.differences.items()}
        judged = {"accuracy_fp32": cost.before, "accuracy": cost.after, "drop": cost.drop} if cost else {}
        print_json({**{name: str(path) for name, path in paths.items()}, "precision": precision, **shares, **judged})
        return
    for path in exported.graphs.values():
        stdout().print(f"{path}  {path.stat().st_size / 1e6:.3f} MB", markup=False)
    for difference in exported.differences.values():
        stdout().print(str(difference))
    if cost:
        stdout().print(f"int8: {cost}")
