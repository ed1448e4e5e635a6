"""Types of options, with their help and shown defaults."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from frn.models.zoo import DEFAULT_MODEL

DeviceName = Literal["auto", "cpu", "cuda"]
PrecisionName = Literal["auto", "fp32", "bf16"]


def model_names(incomplete: str) -> list[str]:
    """Complete the name of a model."""
    from frn.models.zoo import named_models

    return [name for name in named_models() if name.startswith(incomplete)]


def preset_names(incomplete: str) -> list[str]:
    """Complete the name of a preset."""
    from frn.training.presets import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Replace = Annotated[bool, typer.Option("--replace", help="Overwrite existing files (never photos).")]
Answers = Annotated[Path | None, typer.Option("--out", help="Write the answers to a file (.jsonl or .csv).")]
Top = Annotated[int | None, typer.Option(min=1, help="List only the best classes.", show_default="3, in JSON all")]
Device = Annotated[DeviceName, typer.Option(help="auto: use CUDA if it is available.")]
Precision = Annotated[PrecisionName, typer.Option(help="auto: fp32 for the paper's presets, else bf16 if fast.")]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Number of CPU threads.", show_default="all cores")]
Split = Annotated[str, typer.Option(help="Split to use.")]
SplitData = Annotated[Path, typer.Option(help="Data set with train/, val/ and test/ folders.")]
EpisodeSeed = Annotated[int, typer.Option(min=0, help="Random seed of the episodes.")]

ImportPreset = Annotated[str | None, typer.Option(help="Preset for the authors' .pth file; sets the image size.")]


# Classifying
Threshold = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Label photos unknown below this `known` (0: none).",
        show_default="calibrated from the example photos",
    ),
]
FalseRejections = Annotated[float, typer.Option(min=0, max=0.5, help="Fraction of known photos that may be rejected.")]
Classes = Annotated[Path, typer.Argument(help="Folder of class folders, zip, CSV (path,label) or project.")]
Level = Annotated[
    int | None,
    typer.Option(min=1, max=2, help="Which of two levels of folders are the classes.", show_default="asks if unclear"),
]
ClassifierModel = Annotated[
    str | None,
    typer.Option(
        help="Model name, features.onnx, model file or run folder.",
        show_default=DEFAULT_MODEL,
        autocompletion=model_names,
    ),
]
TtaName = Annotated[
    Literal["none", "hflip", "views", "auto"] | None,
    typer.Option(help="hflip: mirror (2x time); views: crops (4x); auto.", show_default="none, or the project's"),
]
FindName = Annotated[
    Literal["none", "one", "all", "auto"] | None,
    typer.Option(help="one: find the subject of each photo. all: several.", show_default="none, or the project's"),
]
Transductive = Annotated[
    bool, typer.Option("--transductive", help="Use all photos of this call to refine the classes.")
]


# Training
Method = Annotated[str | None, typer.Option(help="Override the preset's head.")]
TrainingData = Annotated[list[Path] | None, typer.Option(help="Data set with train/ and val/. Repeatable.")]
RunOut = Annotated[Path | None, typer.Option(help="Folder for checkpoints and metrics.", show_default="runs/PRESET")]
Backbone = Annotated[str | None, typer.Option(help="Override the preset's backbone.")]
Epochs = Annotated[int | None, typer.Option(min=1, help="Number of epochs; scales the milestones.")]
LearningRate = Annotated[float | None, typer.Option(help="Initial learning rate.", show_default="the preset's")]
Way = Annotated[int | None, typer.Option(min=2, help="Classes per episode.")]
Shot = Annotated[int | None, typer.Option(min=1, help="Support images per class.")]
Queries = Annotated[int | None, typer.Option(min=1, help="Query images per class.")]
RunConfig = Annotated[Path | None, typer.Option(help="TOML file with settings, like a run's config.toml.")]
WarmUp = Annotated[
    int | None, typer.Option(min=0, help="Learning-rate warm-up steps.", show_default="those of the method")
]
Init = Annotated[str | None, typer.Option(metavar="MODEL", help="Start from the weights of this model.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")]
