"""The paper's runs that two benchmark scripts time, and the options that both scripts have."""

from typing import Annotated, Literal

import typer

PRESETS = {"resnet12": "cub-cropped-resnet12", "conv4": "cub-cropped-conv4"}
"""The paper's runs on birds for each backbone, with images of 84 x 84 pixels."""

Backbone = Annotated[
    Literal["resnet12", "conv4"] | None, typer.Option(help="Backbone, at 84 x 84 pixels.", show_default="both")
]
Quick = Annotated[bool, typer.Option("--quick", help="Take small episodes and few turns: a try, not a result.")]
