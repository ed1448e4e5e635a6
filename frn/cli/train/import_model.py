"""`frn import`: a network of others, with weights of others, as a model."""

from pathlib import Path
from typing import Annotated

import typer

from frn.cli.shell.console import stdout, user_errors
from frn.cli.shell.options import ImportPreset, MethodName, Replace
from frn.cli.shell.output import AsJson, Format, chosen_format, printed
from frn.system.overwriting import require_writable


def import_backbone(
    backbone: Annotated[
        str, typer.Argument(help="torchvision:NAME, timm:NAME, or a .pth of FRN's or Bi-FRN's authors.")
    ],
    out: Annotated[Path, typer.Option(help="Model file to write: something.safetensors.")],
    weights: Annotated[
        Path | None,
        typer.Option(help=".safetensors, or .pth of tensors alone.", show_default="those in the cache of its library"),
    ] = None,
    size: Annotated[
        int | None, typer.Option(min=8, help="Side of the images, in pixels.", show_default="that of the weights")
    ] = None,
    method: Annotated[MethodName, typer.Option(help="The head; it learns nothing.")] = "frn",
    preset: ImportPreset = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch weights that the cache lacks.")] = False,
    replace: Replace = False,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """Make a model of a network that others have trained, with an untrained head; or of an authors' checkpoint.

    Every command takes the file. Of an untrained head lambda, rho and the temperature are chosen for each set of
    classes, by leaving out each of their photos once; `frn eval` chooses them from the validation split.
    """
    with user_errors():
        wants = chosen_format(form, as_json)
        from frn.backbones.pretrained import find_weights
        from frn.errors import FrnError
        from frn.models.model import import_pretrained, load_model, save_model
        from frn.models.zoo import is_bare
        from frn.training.presets import find_preset

        if out.suffix != ".safetensors":
            raise FrnError(f"{out}: a model file is called something.safetensors")
        require_writable(out, replace=replace)
        found = Path(backbone)
        if bare := is_bare(found):
            if weights or size:
                raise FrnError(f"{backbone}: takes no --weights and no --size")
            model = load_model(found, transform=find_preset(preset).transform if preset else None)
        if not bare:
            if preset:
                raise FrnError("--preset is for an authors' .pth file alone")
            found = find_weights(backbone, weights, download=download)
            model = import_pretrained(backbone, found, size=size, method=method)
        save_model(model, out)
    h, w = model.grid
    transform = model.config.transform
    shape = {"size": transform.size, "resize": transform.resize, "r": h * w, "d": model.d}
    if printed(wants, {"model": str(out), "weights": str(found), **shape}):
        return
    stdout().print(f"{out}: r = {h * w} locations ({h} x {w}) of d = {model.d} channels")
    stdout().print(f"weights: {found}")
