"""`frn export`: export models for any onnxruntime."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from frn.cli.shell import options
from frn.cli.shell.classes import open_classes
from frn.cli.shell.console import note, print_json, progress_bar, report_skipped, stdout
from frn.errors import FrnError
from frn.models.zoo import DEFAULT_MODEL


def export(
    out: Annotated[Path | None, typer.Option(help="Folder for the exported files.")] = None,
    web: Annotated[Path | None, typer.Option(help="Write a web page with the classifier to this folder.")] = None,
    examples: Annotated[bool, typer.Option("--examples", help="For --web: show small copies of examples.")] = False,
    model: Annotated[
        str | None, typer.Option(help="Model name, model file or run folder.", show_default=DEFAULT_MODEL)
    ] = None,
    classes: Annotated[Path | None, typer.Option(help="Class folders or a project; adds classifier.onnx.")] = None,
    level: options.Level = None,
    threshold: options.Threshold = None,
    tta: options.TtaName = None,
    precision: Annotated[
        Literal["fp32", "fp16", "int8"], typer.Option(help="fp16: half the size; int8: a quarter (with --calibrate).")
    ] = "fp32",
    calibrate: Annotated[
        Path | None, typer.Option(help="Folder of class folders for calibrating and testing int8.")
    ] = None,
    max_drop: Annotated[float, typer.Option(min=0, help="Largest accuracy loss for int8, in percentage points.")] = 1.0,
    weights: Annotated[bool, typer.Option("--weights", help="Also write model.safetensors for torch.")] = False,
    replace: options.Replace = False,
    as_json: options.AsJson = False,
) -> None:
    """Export ONNX files for any onnxruntime: features.onnx, head.onnx and, with --classes, classifier.onnx.

    The files use only standard operators, and a README.md explains how to call them. Each model is checked against the
    original before its file is written. An earlier export in --out is replaced.

    --web writes a web page instead. Any file server can host it. Photos stay in the browser, and the page works offline
    after the first visit. It needs onnxruntime-web; `npm pack onnxruntime-web` in the current folder is enough.
    """
    if (out is None) == (web is None):
        raise FrnError("pass either --out for ONNX files or --web for a web page")
    if web is not None:
        if precision != "fp32" or weights or calibrate:
            raise FrnError("--web uses the model as it is. Remove --precision, --calibrate and --weights.")
        _web(web, examples, model, classes, level, threshold, tta, as_json, replace)
        return
    assert out is not None
    if examples:
        raise FrnError("--examples only applies to --web. Remove it.")
    if max_drop != 1.0 and precision != "int8":
        raise FrnError("--max-drop only applies to --precision int8. Remove it.")
    if threshold is not None and classes is None:
        raise FrnError("--threshold is stored in classifier.onnx, which needs --classes.")
    from frn_export.export import ExportOptions, export_model

    from frn.estimator.loading import load_extractor
    from frn.inference.enrollment import listed_state
    from frn.models.model import load_model
    from frn.projects.class_files import ClassFiles, class_files

    contents = class_files(classes, level) if classes else ClassFiles({})
    if classes and contents.project and contents.model:
        reference, stored_threshold = contents.project.model, contents.project.state.threshold
        tta = tta or reference.tta
        if not model:
            reference.check(load_extractor(contents.model, "cpu").plain_sha256, classes, contents.model)
        if threshold is None and stored_threshold is not None:
            is_own_model = not model or load_extractor(model, "cpu").plain_sha256 == reference.sha256
            threshold = stored_threshold if is_own_model else None
    wanted = ExportOptions(
        precision=precision,
        calibrate=calibrate,
        max_drop=max_drop,
        threshold=threshold,
        weights=weights,
        replace=replace,
        tta=tta or "none",
    )
    loaded = load_model(model or contents.model or DEFAULT_MODEL)
    report_skipped([*contents.notes, *contents.skipped])
    state = contents.project.state if contents.project else listed_state(contents.members, contents.others)
    exported = export_model(loaded, out, wanted, state if classes else None, bars=progress_bar, warn=report_skipped)
    for path in exported.removed:
        note(f"removed {path}: it belonged to the previous export")
    cost = exported.cost
    if as_json:
        result: dict[str, object] = {"precision": precision}
        result |= {name: str(path) for name, path in exported.paths.items()}
        result |= {name: difference.share for name, difference in exported.differences.items()}
        if cost:
            result |= {"accuracy_fp32": cost.before, "accuracy": cost.after, "drop": cost.drop}
        print_json(result)
        return
    for path in exported.paths.values():
        stdout().print(f"{path}  {path.stat().st_size / 1e6:.3f} MB")
    for difference in exported.differences.values():
        stdout().print(str(difference))
    if cost:
        stdout().print(f"int8: {cost}")


def _web(
    out: Path,
    examples: bool,
    model: str | None,
    classes: Path | None,
    level: int | None,
    threshold: float | None,
    tta: options.TtaName,
    as_json: bool,
    replace: bool,
) -> None:
    """Write a web page."""
    from frn_export.web.runtime import find_runtime, missing_runtime
    from frn_export.web.write import require_writable_page, write_page

    from frn.estimator.loading import load_extractor
    from frn.features.feature_cache import FeatureStore
    from frn.inference.classifier import Classifier

    require_writable_page(out, replace=replace)
    runtime = find_runtime(out)
    if classes is None:
        classifier = Classifier(load_extractor(model or DEFAULT_MODEL, "cpu", tta or "none"), FeatureStore())
    else:
        classifier = open_classes(classes, model, "cpu", tta, level=level)
    if threshold is not None:
        classifier.threshold_override = threshold
    if classifier.state.search == "all":
        note("the page shows only the best subject of each photo")
    difference = write_page(classifier, out, runtime, thumbnails=examples, replace=replace)
    if runtime is None:
        note(missing_runtime(out))
    if as_json:
        print_json({"web": str(out), "runtime": runtime and runtime.version, "page_difference": difference.share})
        return
    megabytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
    stdout().print(f"{out}  {megabytes:.1f} MB{f', onnxruntime-web {runtime.version}' if runtime else ''}")
    if classifier.names:
        stdout().print(str(difference))
    if runtime is not None:
        stdout().print(f"python -m http.server --directory {shlex.quote(str(out))}")
