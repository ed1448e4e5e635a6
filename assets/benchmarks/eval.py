"""Compare the speed of `frn eval` and the authors' test loop, in episodes per second."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import torch
import typer
from bench import AsJson, run
from bench.loops import PRESETS, Backbone, Data, Quick
from bench.photos import in_memory, timed_classes
from bench.plain import plain_accuracy
from bench.timing import timed
from torch import Tensor

from frn.cli.shell.console import print_json, print_table, progress_bar, user_errors
from frn.cli.shell.options import Device, PrecisionName
from frn.episodes import EpisodeShape, evaluation_episode
from frn.evaluation.episodes import episode_accuracies
from frn.evaluation.features import GPU_BATCH, TorchExtractor
from frn.heads.head import Head
from frn.models.model import Model
from frn.system.precision import Precision, choose_device, choose_precision, keep_freed_memory
from frn.training.presets import find_preset
from frn.training.setup import new_model

TEST_EPISODES = 10_000
"""Number of episodes in the paper's tests; `frn eval` computes the features once for all of them."""
IMAGES, CLASSES = 12_000, 20
"""Number of images in the test split of mini-ImageNet; the test split of CUB has about 2,950."""
WAY, QUERIES = 5, 16


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationTiming:
    """Seconds that a test of `TEST_EPISODES` episodes takes."""

    backbone: str
    shot: int
    images: int
    """Number of images of all test classes."""
    precision: Precision
    extraction: float
    """Seconds for the feature maps of all images."""
    scoring: float
    """Seconds for all episodes, without the time for the feature maps."""
    plain: float
    """Seconds for all episodes with the authors' loop, in which every drawn image goes through the network."""

    @property
    def times_as_fast(self) -> dict[str, float]:
        """Return the speed-up over the authors' loop, with and without the time for features."""
        return {"with features": self.plain / (self.extraction + self.scoring), "episodes": self.plain / self.scoring}

    def as_json(self) -> dict[str, object]:
        """Return the record that `eval.py --json` prints."""
        taken = {"with features": self.extraction + self.scoring, "episodes": self.scoring, "authors": self.plain}
        rates = {name: TEST_EPISODES / seconds for name, seconds in taken.items()}
        return {**asdict(self), "episodes_per_second": rates, "times_as_fast": self.times_as_fast}


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """Number of timed repetitions, from which the time of a whole test is extrapolated."""

    images: int = GPU_BATCH
    episodes: int = 400
    plain: int = 3
    """Episodes in the authors' loop."""


QUICK = Effort(images=16, episodes=144, plain=1)


def time_evaluation(
    backbone: str,
    shots: Sequence[int] = (1, 5),
    *,
    images: int = IMAGES,
    data: Path | None = None,
    effort: Effort | None = None,
    precision: str = "fp32",
    device: str = "auto",
) -> list[EvaluationTiming]:
    """Time a 5-way test with 16 queries at each shot, with `frn eval` and the authors' loop in fp32.

    `data` is a folder of class folders; without it, photos are rendered. `images` is the number of images of all test
    classes together.
    """
    sizes = [images // CLASSES] * CLASSES
    effort = effort or Effort()
    keep_freed_memory()
    where = choose_device(device)
    wanted = choose_precision(precision, where)
    preset = find_preset(PRESETS[backbone])
    model = new_model(preset, 0).to(where).eval()
    timings = []
    with tempfile.TemporaryDirectory() as folder:
        photos = timed_classes(data, WAY, max(shots) + QUERIES, Path(folder))
        files = [file for of_class in photos.values() for file in of_class]
        enough = (files * (1 + effort.images // len(files)))[: effort.images]
        timed_images = in_memory({"all": enough}, preset.transform)
        maps: list[Tensor] = []

        def extract() -> None:
            maps[:] = [TorchExtractor(model, wanted, where).extract(timed_images)]

        extract()  # the first run also allocates memory and is therefore not timed
        extraction = timed(extract, where) / len(timed_images) * sum(sizes)
        feature_maps = maps[0][torch.arange(sum(sizes), device=where) % len(timed_images)]
        for shot in shots:
            shape = EpisodeShape(way=WAY, shot=shot, queries=QUERIES)
            timings.append(
                EvaluationTiming(
                    backbone=backbone,
                    shot=shot,
                    images=sum(sizes),
                    precision=wanted,
                    extraction=extraction,
                    scoring=_scoring(model.head, feature_maps, sizes, shape, effort.episodes),
                    plain=_plain(model, files, shape, effort.plain, where),
                )
            )
    return timings


def _scoring(head: Head, feature_maps: Tensor, sizes: Sequence[int], shape: EpisodeShape, episodes: int) -> float:
    """Return the seconds of a whole test: the time for features plus that for all episodes at the measured pace."""
    began = time.perf_counter()
    marks: list[tuple[int, float]] = []
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
    data: Data = None,
    images: Annotated[int, typer.Option(min=500, help="Of all test classes; CUB's are 2,950.")] = 12_000,
    precision: Annotated[
        PrecisionName, typer.Option(help="Precision of ours; auto: bf16 where the processor has it.")
    ] = "fp32",
    device: Device = "auto",
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Compare a test of 10,000 episodes with the authors' loop: 5-way, 16 queries, 84 x 84 pixels, one thread."""
    with user_errors():
        torch.set_num_threads(1)
        timings = []
        names = [backbone] if backbone else list(PRESETS)
        with progress_bar("evaluating") as show:
            for name in names:
                timings += time_evaluation(
                    name,
                    images=images,
                    data=data,
                    effort=QUICK if quick else None,
                    precision=precision,
                    device=device,
                )
                show(len(timings) // 2, len(names))
    records = [timing.as_json() for timing in timings]
    if as_json:
        print_json(records)
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


if __name__ == "__main__":
    run(main)
