"""`frn import`: a network of others, with weights of others, as a model."""

from pathlib import Path
from typing import Annotated

import typer

from frn.cli.console import print_json, stdout, user_errors
from frn.cli.options import AsJson, MethodName


def import_backbone(
    backbone: Annotated[str, typer.Argument(help="torchvision:NAME or timm:NAME.")],
    out: Annotated[Path, typer.Option(help="Model file to write: something.safetensors.")],
    weights: Annotated[
        Path | None,
        typer.Option(help=".safetensors, or .pth of tensors alone.", show_default="those in the cache of its library"),
    ] = None,
    size: Annotated[
        int | None, typer.Option(min=8, help="Side of the images, in pixels.", show_default="that of the weights")
    ] = None,
    method: Annotated[MethodName, typer.Option(help="The head; it learns nothing.")] = "frn",
    download: Annotated[bool, typer.Option("--download", help="Fetch weights that the cache lacks.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a model of a network that others have trained, with an untrained head.

    Every command takes the file. Lambda, rho and the temperature are chosen for each set of classes, by leaving out
    each of their photos once; `frn eval` chooses them from the validation split.
    """
    with user_errors():
        from frn.backbones.pretrained import find_weights
        from frn.errors import FrnError
        from frn.model import import_pretrained, save_model

        if out.suffix != ".safetensors":
            raise FrnError(f"{out}: a model file is called something.safetensors")
        found = find_weights(backbone, weights, download=download)
        model = import_pretrained(backbone, found, size=size, method=method)
        save_model(model, out)
    h, w = model.grid
    if as_json:
        transform = model.config.transform
        shape = {"size": transform.size, "resize": transform.resize, "r": h * w, "d": model.d}
        print_json({"model": str(out), "weights": str(found), **shape})
        return
    stdout().print(f"{out}: r = {h * w} locations ({h} x {w}) of d = {model.d} channels", markup=False)
    stdout().print(f"weights: {found}", markup=False)
