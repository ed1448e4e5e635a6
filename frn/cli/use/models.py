"""`frn models`: list, add, compare and remove models."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from frn.cli.shell import console, options

if TYPE_CHECKING:
    from frn.evaluation.comparison import ModelComparison
    from frn.features.extractor import Tta
    from frn.models.zoo import ModelFiles

app = typer.Typer(invoke_without_command=True)


@app.callback()
def models(context: typer.Context, as_json: options.AsJson = False) -> None:
    """List, add, compare and remove named models. Every command and the app accept these names."""
    if context.invoked_subcommand is not None:
        return
    from frn.errors import FrnError
    from frn.models.zoo import named_models, remove_unfinished_models

    facts = {}
    remove_unfinished_models()
    for name, files in named_models().items():
        try:
            facts[name] = _facts(files)
        except FrnError as error:  # a damaged model must not hide the others
            console.note(f"warning: {error}")
    if as_json:
        console.print_json(facts)
    else:
        _show(facts)


def _layer(text: str | None) -> str | None:
    if text is not None and text != "auto" and not (text.isascii() and text.isdecimal() and int(text)):
        raise typer.BadParameter(f"{text!r} is neither a positive number nor auto")
    return text


@app.command()
def add(
    network: Annotated[str, typer.Argument(help="Name, torchvision:NAME, timm:NAME, model file or run.")],
    name: Annotated[
        str | None, typer.Option(help="Name for the added model.", show_default="its own name, up to the first dot")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="Weights file: .safetensors, or .pth with tensors only.", show_default="downloaded"),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(min=8, help="Width and height of the images, in pixels.", show_default="that of the weights"),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(help="Stage from the end (timm only), or auto.", show_default="1, the last", callback=_layer),
    ] = None,
    classes: Annotated[
        Path | None, typer.Option(help="Class folders on which --layer auto chooses.", show_default=False)
    ] = None,
    method: Annotated[str | None, typer.Option(help="Head for a pretrained backbone.", show_default="frn")] = None,
    preset: options.ImportPreset = None,
    as_json: options.AsJson = False,
) -> None:
    """Add a pretrained backbone, a training run or a checkpoint from the paper's authors under a name.

    The documentation lists short names of pretrained backbones. FRN needs no training on them: leave-one-out chooses
    lambda and the temperature for your classes, and `frn eval` chooses them on the validation split. Check the licence
    of the weights before you use them.

    --layer auto tries the last four stages or transformer blocks, each as it is, with half of its principal components,
    and whitened. It keeps the one that classifies the photos of --classes best by leave-one-out.
    """
    from frn.errors import FrnError
    from frn.models.zoo import catalogue, is_bare

    is_file = network not in catalogue() and (is_bare(Path(network)) or Path(network).exists())
    if is_file and (weights or size or layer or classes or method):
        raise FrnError(f"{network}: already contains a whole model. Only --name and --preset apply to it.")
    if not is_file and preset:
        raise FrnError("--preset only applies to the authors' .pth files")
    from frn_export.added import add_file, add_model

    from frn.projects.class_files import class_files

    if is_file:
        added, files = add_file(network, name=name, preset=preset)
    else:
        with console.live_text("looking for the weights") as say:

            def progress(done: int) -> None:
                say(f"downloading the weights: {done / 1e6:.1f} MB")

            stage: int | Literal["auto"] | None = int(layer) if layer and layer != "auto" else None
            stage = "auto" if layer == "auto" else stage
            members = class_files(classes).members if classes else None
            head = method or "frn"
            added, files = add_model(
                network,
                name=name,
                weights=weights,
                size=size,
                layer=stage,
                classes=members,
                method=head,
                progress=progress,
                report=say,
            )
    facts = _facts(files)
    if as_json:
        console.print_json({added: facts})
        return
    _show({added: facts})
    if layer == "auto":
        console.stdout().print(f"{facts['chosen']} ({facts['unchosen']})")
    console.stdout().print(f"frn-tui --model {added}   or   frn classify FOLDER PHOTO --model {added}")


@app.command()
def compare(
    classes: options.Classes,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Model to compare. Repeatable.", show_default="all named models", autocompletion=options.model_names
        ),
    ] = None,
    tta: Annotated[list[str] | None, typer.Option(help="Also compare with this, as in classify. Repeatable.")] = None,
    level: options.Level = None,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Compare models on your own classes.

    Each model enrolls the classes and classifies every example photo by leave-one-out. For each model, the table
    shows the accuracy with its 95% interval, the AUROC for unknown photos, the time per photo and the file size.

    With --tta, each model is also compared with test-time augmentation. The command to use is printed if it is more
    accurate than without: if the gain, photo by photo, exceeds its 95% interval.
    """
    from frn.estimator.loading import load_extractor
    from frn.evaluation.comparison import compare_models, disagreements, gain
    from frn.models.zoo import named_extractors
    from frn.projects.class_files import class_files

    files = class_files(classes, level)
    console.report_skipped([*files.notes, *files.skipped])
    comparisons = []
    with console.live_text("comparing") as say:
        pairs = [(name, each) for name in model or named_extractors() for each in dict.fromkeys(["none", *(tta or [])])]
        labels = [name if each == "none" else f"{name} --tta {each}" for name, each in pairs]
        opened = (load_extractor(name, device, cast("Tta", each)) for name, each in pairs)
        for each in compare_models(files.members, zip(labels, opened, strict=True)):
            comparisons.append(each)
            say(f"{len(comparisons)} of {len(labels)} models compared")
    differing = disagreements(comparisons)
    facts = {
        each.model: {
            "accuracy": round(100 * each.right / each.photos, 2),
            "interval": [round(100 * end, 2) for end in each.interval],
            "photos": each.photos,
            "auroc": None if math.isnan(each.auroc) else round(each.auroc, 4),
            "milliseconds": round(each.milliseconds, 2),
            "bytes": each.bytes,
        }
        for each in comparisons
    }
    plain: dict[str, ModelComparison] = {}
    gains = []
    for (name, augmented), each in zip(pairs, comparisons, strict=True):
        if augmented == "none":
            plain[name] = each
        elif (more := gain(plain[name], each)).mean > more.ci95:
            gains.append((more, each.milliseconds / plain[name].milliseconds, name, augmented))
            facts[each.model]["gain"] = round(more.mean, 2)
    disagree = {str(path): {each.model: each.answers[path] for each in comparisons} for path in differing}
    if as_json:
        console.print_json({"models": facts, "disagreements": disagree})
        return
    rows = [
        (
            each.model,
            f"{each.right / each.photos:.1%} ({each.interval[0]:.0%} to {each.interval[1]:.0%})",
            "" if math.isnan(each.auroc) else f"{each.auroc:.2f}",
            f"{each.milliseconds:.1f} ms",
            f"{each.bytes / 1e6:.1f} MB",
        )
        for each in sorted(comparisons, key=lambda each: each.right, reverse=True)
    ]
    console.print_table(("model", "right", "AUROC", "time", "size"), rows)
    if len(comparisons) > 1:
        where = " (--json lists them)" if differing else ""
        console.stdout().print(f"The models disagree on {len(differing)} of {comparisons[0].photos} photos{where}.")
    for more, times, name, augmented in gains:
        console.stdout().print(f"accurate: {more.mean:+.1f} ± {more.ci95:.1f} points for {times:.1f} times the time")
        console.suggest("frn", "classify", str(classes), "PHOTO", "--model", name, "--tta", augmented)
    if tta and not gains:
        console.stdout().print("No --tta is more accurate here than chance would explain.")


@app.command()
def remove(name: Annotated[str, typer.Argument(help="Name of an added model.")]) -> None:
    """Delete an added model."""
    from frn.models.zoo import remove_model

    remove_model(name)
    console.stdout().print(f"removed {name}")


def _facts(files: "ModelFiles") -> dict[str, Any]:
    """Return a model's entry for `--json`: measured values, then other fields of the header's record and the notes."""
    from frn.models.header import read_header, read_notes

    config, record = read_header(files.weights)
    notes = {} if files.shipped else read_notes(files.weights.parent)
    measured = {
        "path": str(files.weights),
        "backbone": config.backbone,
        "method": config.method,
        "size": config.transform.size,
        "bytes": files.weights.stat().st_size,
    }
    return measured | notes | record | measured


def _show(models: dict[str, dict[str, Any]]) -> None:
    from frn.models.header import accuracy_of

    rows = [
        (
            name,
            facts["method"],
            console.printable(facts["backbone"]),
            f"{facts['size']} px",
            f"{facts['bytes'] / 1e6:.2f} MB",
            console.printable(f"{facts['milliseconds']} ms") if "milliseconds" in facts else "",
            console.printable(str(facts.get("about") or facts.get("data", ""))),
            console.printable(accuracy_of(facts) or str(facts.get("licence", ""))),
        )
        for name, facts in models.items()
    ]
    console.print_table(
        ("model", "method", "backbone", "image", "size", "time", "trained on", "validation, or licence"), rows
    )
