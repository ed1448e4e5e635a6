"""Compare the speed of `frn eval` and the authors' test loop, in episodes per second."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated

import torch
import typer
from bench import AsJson, run, show
from bench.loops import PRESETS, Backbone, Quick
from bench.photos import in_memory, timed_classes
from bench.plain import plain_accuracy
from bench.timing import timed
from torch import Tensor

from frn.cli.shell.console import progress_bar, user_errors
from frn.cli.shell.options import Device, PrecisionName
from frn.episodes import EpisodeShape, evaluation_episode
from frn.evaluation.episodes import episode_accuracies
from frn.evaluation.features import GPU_BATCH, TorchExtractor
from frn.heads.head import Head
from frn.models.model import Model
from frn.system.precision import choose_device, choose_precision, keep_freed_memory
from frn.training.presets import find_preset
from frn.training.setup import new_model

TEST_EPISODES = 10_000  # number of episodes in the paper's tests; `frn eval` computes the features once for all of them
CLASSES = 20  # number of classes in the test split of mini-ImageNet, which has 12,000 images
WAY, QUERIES = 5, 16


def time_evaluation(backbone: str, *, images: int, precision: str, device: str, quick: bool) -> list[dict[str, object]]:
    """Time a 5-way test with 16 queries at 1 and 5 shots, with `frn eval` and the authors' loop in fp32.

    `images` is the number of images of all test classes together. The time of a whole test is extrapolated from that of
    some images and episodes.
    """
    sizes, timed_count, shots = [images // CLASSES] * CLASSES, 16 if quick else GPU_BATCH, (1, 5)
    keep_freed_memory()
    where = choose_device(device)
    model = new_model(find_preset(PRESETS[backbone]), 0).to(where).eval()
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        photos = timed_classes(WAY, max(shots) + QUERIES, Path(folder))
        files = [file for of_class in photos.values() for file in of_class]
        enough = (files * (1 + timed_count // len(files)))[:timed_count]
        timed_images = in_memory({"all": enough}, model.config.transform)
        maps: list[Tensor] = []

        def extract() -> None:
            maps[:] = [TorchExtractor(model, choose_precision(precision, where), where).extract(timed_images)]

        extract()  # the first run also allocates memory and is therefore not timed
        extraction = timed(extract, where) / timed_count * sum(sizes)
        feature_maps = maps[0][torch.arange(sum(sizes), device=where) % timed_count]
        for shot in shots:
            shape = EpisodeShape(way=WAY, shot=shot, queries=QUERIES)
            scoring = _scoring(model.head, feature_maps, sizes, shape, 144 if quick else 400)
            plain = _plain(model, files, shape, 1 if quick else 3, where)
            row = {"test": f"{backbone}, {shot}-shot", "features, s": extraction, "episodes, s": scoring}
            row |= {"episodes/s": TEST_EPISODES / (extraction + scoring), "authors' episodes/s": TEST_EPISODES / plain}
            rows.append(row | {"times as fast": plain / (extraction + scoring), "without features": plain / scoring})
    return rows


def _scoring(head: Head, feature_maps: Tensor, sizes: Sequence[int], shape: EpisodeShape, episodes: int) -> float:
    """Return the seconds that all episodes take at the measured pace."""
    began, marks = time.perf_counter(), list[tuple[int, float]]()
    episode_accuracies(
        head,
        feature_maps,
        sizes,
        shape,
        episodes=range(episodes),
        seed=0,
        progress=lambda done, total: marks.append((done, time.perf_counter() - began)),
    )
    (early, first), (late, last) = marks[0], marks[-1]
    return first + (last - first) / (late - early) * (TEST_EPISODES - early)


def _plain(model: Model, files: Sequence[Path], shape: EpisodeShape, count: int, where: torch.device) -> float:
    """Return the seconds of a whole test, estimated from the median time of some of its episodes."""
    each = len(files) // shape.way
    sampled = [evaluation_episode([each] * shape.way, shape, seed=0, index=index) for index in range(count + 1)]
    episodes = [[*e[:, : shape.shot].ravel().tolist(), *e[:, shape.shot :].ravel().tolist()] for e in sampled]
    answers = plain_accuracy(model, files, episodes, shape, where)
    return median([timed(lambda: next(answers), where) for _ in episodes][1:]) * TEST_EPISODES


def main(
    backbone: Backbone = None,
    images: Annotated[int, typer.Option(min=500, help="Of all test classes; CUB's are 2,950.")] = 12_000,
    precision: Annotated[
        PrecisionName, typer.Option(help="Precision of ours; auto: bf16 where the processor has it.")
    ] = "fp32",
    device: Device = "auto",
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Compare a test of 10,000 episodes with the authors' loop: 5-way, 16 queries, 84 x 84 pixels, one thread."""
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    names = [backbone] if backbone else list(PRESETS)
    with user_errors(), progress_bar("evaluating") as progress:
        for done, name in enumerate(names, 1):
            rows += time_evaluation(name, images=images, precision=precision, device=device, quick=quick)
            progress(done, len(names))
    show(rows, as_json, "times as fast: than the authors' loop, with the time for features and without it")


if __name__ == "__main__":
    run(main)
