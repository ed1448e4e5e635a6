"""Compare the speed of a training step with the authors' loop and with the machine's fastest matrix products."""

import math
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import torch
import typer
from bench import AsJson, run, show
from bench.loops import PRESETS, Backbone, Quick
from bench.photos import Classes, in_memory, timed_classes
from bench.plain import PlainTraining
from bench.timing import peak_rate, step_operations, timed

from frn.cli.shell.console import progress_bar, user_errors
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
UNTIMED, UNTIMED_PLAIN = 8, 2  # untimed first steps of `frn train` and of the authors' loop, which allocate memory


def time_training(
    backbone: str, shape: EpisodeShape, *, rounds: int, precision: str, device: str
) -> list[dict[str, object]]:
    """Time whole steps of the paper's run on birds, with `frn train` and with the authors' loop; return a row for each.

    Each loop runs in a fresh process, because the loops would fragment each other's memory. With bf16, the authors'
    loop runs in fp32 and also under autocast. The share of peak is that of the network's convolutions over the whole
    step; that of augmentation, the time in which `frn train` turns stored pixels into a batch.

    Args:
        backbone: one of `PRESETS`.
        shape: the episode of a step.
        rounds: number of timed steps of each loop.
        precision: precision of `frn train`.
        device: device on which all loops run.
    """
    where = choose_device(device)
    wanted = choose_precision(precision, where)
    preset = replace(find_preset(PRESETS[backbone]), episode=shape)
    loops: dict[str, tuple[Callable[..., list[float]], Precision, int]] = {OURS: (our_steps, wanted, UNTIMED)}
    loops[PLAIN] = (plain_steps, "fp32", UNTIMED_PLAIN)
    if wanted == "bf16":
        loops[PLAIN_CAST] = (plain_steps, "bf16", UNTIMED_PLAIN)
    milliseconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        episode = timed_classes(shape.way, shape.per_class, Path(folder))
        for name, (steps, how, untimed) in loops.items():
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
                seconds = fresh.submit(steps, preset, episode, how, where, untimed + rounds).result()
            milliseconds[name] = 1000 * median(seconds[untimed:])
        images, generator = in_memory(episode, preset.data.max_side), np.random.default_rng(0)
        sampled = np.arange(len(images))
        augmentation = median(
            timed(lambda: augment(*images.gather(sampled), preset.augmentation, generator, where), where)
            for _ in range(UNTIMED + rounds)
        )
    gigaflop = step_operations(backbone, shape.way * shape.per_class) / 1e9
    peak = peak_rate(where, torch.bfloat16 if wanted == "bf16" else torch.float32) / 1e9
    return [
        {
            "step": f"{backbone}, {shape}",
            "loop": name,
            "ms": ms,
            "% of peak": 1e5 * gigaflop / ms / peak,
            "times as long": ms / milliseconds[OURS],
            "GFLOP": gigaflop,
            f"peak GFLOP/s in {wanted}": peak,
            "% augmentation": 1e5 * augmentation / ms if name == OURS else None,
        }
        for name, ms in milliseconds.items()
    ]


def our_steps(preset: Preset, episode: Classes, how: Precision, where: torch.device, count: int) -> list[float]:
    """Return the seconds that each step of `frn train` takes, including reports and metrics."""
    torch.set_num_threads(1)
    # All steps are in the same epoch, so that no checkpoint is written while the steps are timed.
    images = in_memory({name: files * (count + 1) for name, files in episode.items()}, preset.data.max_side)
    ends = [time.perf_counter()]
    with tempfile.TemporaryDirectory() as folder:
        train(
            preset,
            images,
            images,
            Path(folder) / "run",
            RunSettings(precision=how, device=where, save_every=math.inf),
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


def main(
    backbone: Backbone = None,
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
    rows: list[dict[str, object]] = []
    names = [backbone] if backbone else list(PRESETS)
    with user_errors(), progress_bar("training") as progress:
        for done, name in enumerate(names, 1):
            shape = EpisodeShape(way=way or WAYS[name], shot=5, queries=15)
            shape = EpisodeShape(way=2, shot=1, queries=1) if quick else shape
            count = 1 if quick else rounds
            rows += time_training(name, shape, rounds=count, precision=precision, device=device)
            progress(done, len(names))
    show(rows, as_json, "Peak: the fastest matrix products of this machine")


if __name__ == "__main__":
    run(main)
