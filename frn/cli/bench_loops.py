"""`frn bench train` and `eval`: whole loops beside the authors' own."""

from pathlib import Path
from typing import Annotated

import typer

from frn.cli.shell.console import print_table, progress_bar, stdout, user_errors
from frn.cli.shell.options import Device, PrecisionName
from frn.cli.shell.output import AsJson, Format, chosen_format, printed

Backbone = Annotated[list[str] | None, typer.Option(help="resnet12 or conv4, at 84 x 84 pixels.", show_default="both")]
Data = Annotated[
    Path | None,
    typer.Option(exists=True, file_okay=False, help="Folder of class folders.", show_default="drawn photos"),
]
Precision = Annotated[PrecisionName, typer.Option(help="Of ours. auto: bf16 where the processor has it.")]
Quick = Annotated[bool, typer.Option("--quick", help="Small episodes and few turns: a try, no result.")]


def train(
    backbone: Backbone = None,
    data: Data = None,
    way: Annotated[int | None, typer.Option(min=2, help="Classes of an episode.", show_default="5 and 20")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Steps of each that count.")] = 3,
    precision: Precision = "auto",
    device: Device = "auto",
    compiled: Annotated[bool, typer.Option("--compile", help="Ours as `frn train --compile` does it.")] = False,
    quick: Quick = False,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """A training step beside the authors' loop and this machine's matrix products: 5 shots, 15 queries, one thread."""
    with user_errors():
        wants = chosen_format(form, as_json)
        from frn.bench.training import time_training

        timings = []
        with progress_bar("training") as show:
            for name in _chosen(backbone):
                tiny = {"way": 2, "shot": 1, "queries": 1, "rounds": 1}
                sizes = tiny if quick else {"way": way, "rounds": rounds}
                timings.append(
                    time_training(name, data=data, precision=precision, device=device, compiled=compiled, **sizes)
                )
                show(len(timings), len(_chosen(backbone)))
    found = [timing.as_json() for timing in timings]
    if printed(wants, found, found):
        return
    print_table(
        ("step", "loop", "ms", "of peak", "frn train is"),
        (
            (
                f"{t.backbone}, {t.shape}",
                name,
                f"{ms:,.0f}",
                f"{t.shares_of_peak[name]:.0f} %",
                f"{t.times_as_fast[name]:.1f} times as fast" if name in t.times_as_fast else "",
            )
            for t in timings
            for name, ms in t.milliseconds.items()
        ),
    )
    for t in timings:
        share = 100 * t.augmentation / t.milliseconds["frn train"]
        reached = f"{t.operations / 1e9:,.0f} GFLOP a step; products in {t.precision} reach {t.peak / 1e9:,.0f} GFLOP/s"
        stdout().print(f"{t.backbone}: {reached}; augmentation {t.augmentation:,.0f} ms, {share:.0f} % of the step")


def evaluate(
    backbone: Backbone = None,
    data: Data = None,
    images: Annotated[int, typer.Option(min=500, help="Of all test classes; CUB's are 2,950.")] = 12_000,
    precision: Precision = "fp32",
    device: Device = "auto",
    quick: Quick = False,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """A test of 10,000 episodes over some images beside the authors' loop: 5-way, 16 queries, 84 x 84, one thread."""
    with user_errors():
        wants = chosen_format(form, as_json)
        import torch

        from frn.bench.evaluation import QUICK, TEST_EPISODES, time_evaluation

        torch.set_num_threads(1)
        timings = []
        with progress_bar("evaluating") as show:
            for name in _chosen(backbone):
                timings += time_evaluation(
                    name,
                    images=images,
                    data=data,
                    effort=QUICK if quick else None,
                    precision=precision,
                    device=device,
                )
                show(len(timings) // 2, len(_chosen(backbone)))
    found = [timing.as_json() for timing in timings]
    if printed(wants, found, found):
        return
    print_table(
        ("test", "features, s", "episodes, s", "episodes/s", "authors' loop", "times, with features", "episodes alone"),
        (
            (
                f"{t.backbone}, {t.shot}-shot",
                f"{t.extraction:,.1f}",
                f"{t.scoring:,.1f}",
                f"{TEST_EPISODES / (t.extraction + t.scoring):,.1f}",
                f"{TEST_EPISODES / t.plain:,.3f}",
                *(f"{ratio:,.0f}" for ratio in t.times_as_fast.values()),
            )
            for t in timings
        ),
    )


def _chosen(backbones: list[str] | None) -> list[str]:
    from frn.bench.training import PRESETS
    from frn.errors import FrnError

    if other := sorted(set(backbones or []) - set(PRESETS)):
        raise FrnError(f"--backbone {other[0]}: not timed here. Choose one of: {', '.join(PRESETS)}.")
    return backbones or list(PRESETS)
