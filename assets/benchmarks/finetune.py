"""Measure the accuracy before and after `frn finetune`, on classes that the model has not seen.

Each draw takes random classes from a pool of class folders for training, validation and testing, with a limited number
of photos each. `frn finetune` gets the classes as a folder with train/ and val/. The test classes are evaluated once
before and once after fine-tuning, in the same episodes.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from bench import AsJson, run
from bench.photos import Classes, Pools, draw_classes, link_classes, pool_roots, pooled_classes
from numpy.typing import NDArray

from frn.cli.shell.console import note, print_json, print_table, progress_bar, stdout, user_errors
from frn.cli.shell.options import Device, Precision, Threads
from frn.data.folders import ClassFolders, scan
from frn.data.pixel_cache import load_images
from frn.episodes import EpisodeShape
from frn.evaluation.accuracy import Accuracy, summarise
from frn.evaluation.episodes import episode_accuracies
from frn.evaluation.features import TorchExtractor
from frn.models.model import load_model
from frn.models.zoo import DEFAULT_MODEL, resolve
from frn.system.precision import choose_device, choose_precision
from frn.training.launch import prepare_finetuning
from frn.training.runs.run_options import RunOptions

TEST = EpisodeShape(way=5, shot=5, queries=16)
EPISODES = 200
"""Number of test episodes; each of the 360 test photos is a query in about 40 of them."""
CLASSES = {"train": 18, "val": 6, "test": 6}
PHOTOS = 60
"""Maximum number of photos per class. Few users have more, although research data sets contain 600."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gain:
    """The result of one draw: accuracy in percent before and after fine-tuning."""

    pool: str
    seed: int
    val_before: float
    val_after: float
    test_before: Accuracy
    test_after: Accuracy
    gain: Accuracy
    """Gain in accuracy, measured on the same test episodes."""
    seconds: float
    """Minutes from the photos to the fine-tuned model, including the time to decode the photos."""
    processor_seconds: float
    """Minutes of processor time, which are the minutes that one thread of an idle machine needs."""

    @property
    def row(self) -> tuple[str, ...]:
        """Return pool, seed, validation, test, gain, minutes and processor minutes as text."""
        return (
            self.pool,
            str(self.seed),
            f"{self.val_before:.2f} → {self.val_after:.2f}",
            f"{self.test_before} → {self.test_after}",
            f"{self.gain.mean:+.2f} ± {self.gain.ci95:.2f}",
            f"{self.seconds / 60:.1f}",
            f"{self.processor_seconds / 60:.1f}",
        )

    def __str__(self) -> str:
        return "  ".join(self.row)

    def as_json(self) -> dict[str, object]:
        """Return the record that `finetune.py --json` prints."""
        return asdict(self)


def drawn_splits(classes: Classes, seed: int, photos: int) -> dict[str, Classes]:
    """Return the classes of a draw by split, with at most `photos` photos each.

    Raises FrnError if there are too few.
    """
    sampled = draw_classes(classes, sum(CLASSES.values()), photos, seed, least=TEST.per_class)
    names = iter(sampled)
    return {split: {name: sampled[name] for name in islice(names, count)} for split, count in CLASSES.items()}


def measure_gain(roots: Sequence[Path], options: RunOptions, *, photos: int = PHOTOS, episodes: int = EPISODES) -> Gain:
    """Fine-tune `options.init` on a draw, seeded by `options.seed`, and test it on the remaining classes."""
    assert options.init is not None
    sampled = drawn_splits(pooled_classes(roots), options.seed, photos)
    with tempfile.TemporaryDirectory() as place:
        data = Path(place)
        for split, classes in sampled.items():
            link_classes(classes, data / split)
        test = scan(data / "test")
        before = episode_shares(options.init, test, options, episodes)
        began, worked = time.monotonic(), time.process_time()
        run = prepare_finetuning(replace(options, data=[data], out=data / "run"))
        position = run.train(lambda event: None, lambda: False).position
        seconds, processor_seconds = time.monotonic() - began, time.process_time() - worked
        after = episode_shares(str(run.best), test, options, episodes)
    return Gain(
        pool=" + ".join(str(root) for root in roots),
        seed=options.seed,
        val_before=position.start or 0.0,
        val_after=position.best,
        test_before=summarise(before),
        test_after=summarise(after),
        gain=summarise(after - before),
        seconds=seconds,
        processor_seconds=processor_seconds,
    )


def episode_shares(model: str, folders: ClassFolders, options: RunOptions, episodes: int) -> NDArray[np.float64]:
    """Return the accuracy in each test episode; every model is tested on the same episodes."""
    device = choose_device(options.device)
    extractor = TorchExtractor(load_model(model), choose_precision(options.precision, device), device)
    images = load_images(folders, extractor.transform)
    maps = extractor.extract(images)
    return episode_accuracies(extractor.new_head(), maps, images.sizes, TEST, episodes=range(episodes), seed=0)


def main(
    pools: Pools,
    model: Annotated[str, typer.Option(help="What to start from: shipped name, model file, run.")] = DEFAULT_MODEL,
    photos: Annotated[int, typer.Option(min=21, help="Photos of a class at most.")] = 60,
    episodes: Annotated[int, typer.Option(min=1, help="Test episodes.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of the first draw; each has the next.")] = 0,
    precision: Precision = "auto",
    device: Device = "auto",
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Fine-tune on 18 classes from a pool, validate on 6, and measure the gain in accuracy on 6 more."""
    with user_errors():
        resolve(model)
        common = RunOptions(preset="finetune", init=model, precision=precision, device=device, threads=threads)
        gains = []
        with progress_bar("draws") as show:
            for number, pool in enumerate(pools):
                roots = pool_roots(pool)
                options = replace(common, seed=seed + number)
                gains.append(measure_gain(roots, options, photos=photos, episodes=episodes))
                note(str(gains[-1]))
                show(len(gains), len(pools))
    mean = sum(gain.gain.mean for gain in gains) / len(gains)
    draws = [gain.as_json() for gain in gains]
    if as_json:
        print_json({"model": model, "threads": threads, "draws": draws, "gain": mean})
        return
    print_table(("pool", "seed", "validation", "test", "gain", "minutes", "of a processor"), (g.row for g in gains))
    stdout().print(f"{model}, {TEST} with {TEST.queries} queries, {episodes} episodes; mean gain {mean:+.2f} points")


if __name__ == "__main__":
    run(main)
