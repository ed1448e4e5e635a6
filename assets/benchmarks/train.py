"""Compare the speed of a training step with the authors' loop and with the machine's fastest matrix products."""

import math
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import torch
import typer
from bench import AsJson, run
from bench.loops import PRESETS, Backbone, Data, Quick
from bench.photos import Classes, in_memory, timed_classes
from bench.plain import PlainTraining
from bench.timing import peak_rate, step_operations, timed

from frn.cli.shell.console import print_json, print_table, progress_bar, stdout, user_errors
from frn.cli.shell.options import Device, PrecisionName
from frn.data.batch_augmentation import augment
from frn.episodes import EpisodeShape
from frn.system.precision import Precision, choose_device, choose_precision
from frn.training.loop import train
from frn.training.presets import Preset, find_preset
from frn.training.runs.run import RunSettings
from frn.training.setup import new_model

OURS, PLAIN, PLAIN_CAST = "frn train", "authors' loop", "authors' loop, bf16"
WAYS = {"resnet12": 5, "conv4": 20}
"""Classes per episode: as many as in the paper for Conv-4, and half as many for ResNet-12, where the authors' loop is
slow.
"""
UNTIMED, UNTIMED_PLAIN = 8, 2
"""Untimed first steps of `frn train` and of the authors' loop, in which memory is allocated."""


@dataclass(frozen=True, slots=True)
class TrainingTiming:
    """Median milliseconds per step."""

    backbone: str
    shape: EpisodeShape
    precision: Precision
    milliseconds: Mapping[str, float]
    augmentation: float
    """Milliseconds that `frn train` takes to turn stored pixels into a batch."""
    peak: float
    """Operations per second of the machine's fastest matrix product at each precision."""
    operations: int
    """Number of operations in the network's convolutions per step."""

    @property
    def shares_of_peak(self) -> dict[str, float]:
        """Return the speed of each loop over a whole step, as a percentage of the fastest matrix product."""
        return {name: 1e5 * self.operations / ms / self.peak for name, ms in self.milliseconds.items()}

    @property
    def times_as_fast(self) -> dict[str, float]:
        """Return how many times as fast `frn train` is as each version of the authors' loop."""
        return {name: ms / self.milliseconds[OURS] for name, ms in self.milliseconds.items() if name != OURS}

    def as_json(self) -> dict[str, object]:
        """Return the record that `train.py --json` prints."""
        return {
            **asdict(self),
            "augmentation_share": 100 * self.augmentation / self.milliseconds[OURS],
            "shares_of_peak": self.shares_of_peak,
            "times_as_fast": self.times_as_fast,
        }


def time_training(
    backbone: str,
    *,
    data: Path | None = None,
    way: int | None = None,
    shot: int = 5,
    queries: int = 15,
    rounds: int = 3,
    precision: str = "auto",
    device: str = "auto",
) -> TrainingTiming:
    """Time whole steps of the paper's run on birds, with `frn train` and with the authors' loop.

    Each loop runs in a fresh process, because the loops would fragment each other's memory.

    Args:
        backbone: one of `PRESETS`.
        data: folder of class folders; without it, photos are rendered.
        way: classes per episode; `WAYS` by default.
        shot: supports per class.
        queries: queries per class.
        rounds: number of timed steps of each loop.
        precision: precision of `frn train`. With bf16, the authors' loop runs in fp32 and also under autocast.
        device: device on which all loops run.
    """
    where = choose_device(device)
    wanted = choose_precision(precision, where)
    preset = find_preset(PRESETS[backbone])
    shape = EpisodeShape(way=way or WAYS[backbone], shot=shot, queries=queries)
    preset = replace(preset, episode=shape)
    contestants: dict[str, tuple[Callable[..., list[float]], Precision, int]] = {OURS: (our_steps, wanted, UNTIMED)}
    contestants[PLAIN] = (plain_steps, "fp32", UNTIMED_PLAIN)
    if wanted == "bf16":
        contestants[PLAIN_CAST] = (plain_steps, "bf16", UNTIMED_PLAIN)
    milliseconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        episode = timed_classes(data, shape.way, shape.per_class, Path(folder))
        for name, (steps, how, untimed) in contestants.items():
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
                seconds = fresh.submit(steps, preset, episode, how, where, untimed + rounds).result()
            milliseconds[name] = 1000 * median(seconds[untimed:])
        augmentation = 1000 * _augmentation(preset, episode, where, rounds)
    return TrainingTiming(
        backbone=backbone,
        shape=shape,
        precision=wanted,
        milliseconds=milliseconds,
        augmentation=augmentation,
        peak=peak_rate(where, torch.bfloat16 if wanted == "bf16" else torch.float32),
        operations=step_operations(backbone, shape.way * shape.per_class),
    )


def our_steps(preset: Preset, episode: Classes, how: Precision, where: torch.device, count: int) -> list[float]:
    """Return the seconds that each step of `frn train` takes, including reports and metrics."""
    torch.set_num_threads(1)
    # All steps are in the same epoch, so that no checkpoint is written while the steps are timed.
    images = in_memory({name: files * (count + 1) for name, files in episode.items()}, preset.data.max_side)
    ends = [time.perf_counter()]
    settings = RunSettings(precision=how, device=where, save_every=math.inf)
    with tempfile.TemporaryDirectory() as folder:
        train(
            preset,
            images,
            images,
            Path(folder) / "run",
            settings,
            report=lambda event: ends.append(time.perf_counter() + timed(lambda: None, where)),
            stop=lambda: len(ends) > count,
        )
    return np.diff(ends).tolist()


def plain_steps(preset: Preset, episode: Classes, how: Precision, where: torch.device, count: int) -> list[float]:
    """Return the seconds that each step of the authors' loop takes."""
    torch.set_num_threads(1)
    shot = preset.episode.shot
    files = [file for of_class in episode.values() for file in of_class[:shot]]
    files += [file for of_class in episode.values() for file in of_class[shot:]]
    loop = PlainTraining(new_model(preset, 0), files, preset.episode, how, where)
    return [timed(loop.step, where) for _ in range(count)]


def _augmentation(preset: Preset, episode: Classes, where: torch.device, rounds: int) -> float:
    """Return how many seconds each step took."""
    images, generator = in_memory(episode, preset.data.max_side), np.random.default_rng(0)
    sampled = np.arange(len(images))
    return median(
        timed(lambda: augment(*images.gather(sampled), preset.augmentation, generator, where), where)
        for _ in range(UNTIMED + rounds)
    )


def main(
    backbone: Backbone = None,
    data: Data = None,
    way: Annotated[int | None, typer.Option(min=2, help="Classes of an episode.", show_default="5 and 20")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Steps of each that count.")] = 3,
    precision: Annotated[
        PrecisionName, typer.Option(help="Precision of ours; auto: bf16 where the processor has it.")
    ] = "auto",
    device: Device = "auto",
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Compare a training step with the authors' loop and with matrix products: 5 shots, 15 queries, one thread."""
    with user_errors():
        timings = []
        names = [backbone] if backbone else list(PRESETS)
        with progress_bar("training") as show:
            for name in names:
                tiny = {"way": 2, "shot": 1, "queries": 1, "rounds": 1}
                sizes = tiny if quick else {"way": way, "rounds": rounds}
                timings.append(time_training(name, data=data, precision=precision, device=device, **sizes))
                show(len(timings), len(names))
    records = [timing.as_json() for timing in timings]
    if as_json:
        print_json(records)
        return
    print_table(
        ("step", "loop", "ms", "of peak", "frn train is"),
        (
            (
                f"{t.backbone}, {t.shape}",
                name,
                f"{ms:,.0f}",
                f"{t.shares_of_peak[name]:.0f}%",
                f"{t.times_as_fast[name]:.1f} times as fast" if name in t.times_as_fast else "",
            )
            for t in timings
            for name, ms in t.milliseconds.items()
        ),
    )
    for t in timings:
        share = 100 * t.augmentation / t.milliseconds["frn train"]
        reached = f"{t.operations / 1e9:,.0f} GFLOP a step; products in {t.precision} reach {t.peak / 1e9:,.0f} GFLOP/s"
        stdout().print(f"{t.backbone}: {reached}; augmentation {t.augmentation:,.0f} ms, {share:.0f}% of the step")


if __name__ == "__main__":
    run(main)
