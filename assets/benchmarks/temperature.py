"""Measure how well probabilities are calibrated, with the learned gamma and with the temperature for few shots.

The expected calibration error is computed over the queries of random episodes; the labels are the same in both cases.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from bench import AsJson, run
from bench.photos import Pools, draw_classes, link_classes, pool_roots, pooled_classes
from numpy.typing import NDArray

from frn.cli.shell.console import print_json, print_table, progress_bar, stdout, user_errors
from frn.cli.shell.options import Threads
from frn.data.folders import scan
from frn.data.pixel_cache import load_images
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.evaluation.episodes import episode_accuracies
from frn.evaluation.features import TorchExtractor
from frn.evaluation.labelled import ReliabilityDiagram
from frn.heads.frn import FRNHead
from frn.models.model import load_model
from frn.models.zoo import DEFAULT_MODEL, resolve
from frn.ridge.parameters import temperature
from frn.system.precision import set_threads

CLASSES, PHOTOS = 30, 20
"""Number of classes in each draw, and maximum number of photos per class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FewShotCalibration:
    """The expected calibration error for one shape of episodes, in percentage points."""

    pool: str
    way: int
    shot: int
    learned: float
    """Calibration error with the learned gamma."""
    tempered: float
    """Calibration error with `frn.ridge.parameters.temperature`, which `frn classify` uses."""
    accuracy: float
    """Accuracy in percent."""

    def as_json(self) -> dict[str, object]:
        """Return the record that `temperature.py --json` prints."""
        return asdict(self)


def measure_calibration(
    roots: Sequence[Path], extractor: TorchExtractor, shapes: Sequence[EpisodeShape], *, episodes: int, seed: int
) -> list[FewShotCalibration]:
    """Draw classes from folders of class folders and measure every shape on them.

    Raises FrnError if the model has no FRN head, if there are too few classes, or if classes are too small.
    """
    head = extractor.new_head()
    if not isinstance(head, FRNHead) or extractor.model.config.untrained_head:
        raise FrnError("this asks for a model whose FRN head has learned gamma")
    least = max(shape.per_class for shape in shapes)
    sampled = draw_classes(pooled_classes(roots), CLASSES, max(PHOTOS, least), seed, least=least)
    with tempfile.TemporaryDirectory() as place:
        link_classes(sampled, Path(place))
        images = load_images(scan(Path(place)), extractor.transform)
        maps = extractor.extract(images)
    found = []
    for shape in shapes:
        answers = _Answers(shape)
        accuracies = episode_accuracies(
            head, maps, images.sizes, shape, episodes=range(episodes), seed=seed, observe=answers.add
        )
        learned, tempered = answers.errors()
        found.append(
            FewShotCalibration(
                pool=" + ".join(map(str, roots)),
                way=shape.way,
                shot=shape.shot,
                learned=learned,
                tempered=tempered,
                accuracy=100 * float(accuracies.mean()),
            )
        )
    return found


class _Answers:
    """The probabilities of all answers, with the trained gamma and with the temperature for their number of shots."""

    def __init__(self, shape: EpisodeShape) -> None:
        self.factor = temperature(1.0, shape.shot)
        self.target = np.repeat(np.arange(shape.way), shape.queries)
        self.found: list[tuple[NDArray[np.float64], ...]] = []

    def add(self, start: int, sampled: NDArray[np.int64], logits: NDArray[np.float32]) -> None:
        """Record episodes with their logits."""
        right = logits.argmax(-1) == self.target
        gaps = logits.astype(np.float64) - logits.max(-1, keepdims=True)
        own, tempered = (1 / np.exp(factor * gaps).sum(-1) for factor in (1.0, self.factor))
        self.found.append((right, own, tempered))

    def errors(self) -> list[float]:
        """Return the calibration errors in percent, with the trained gamma and with the temperature."""
        right, *probabilities = (np.concatenate(part).ravel() for part in zip(*self.found, strict=True))
        return [100 * ReliabilityDiagram.of(each, right.astype(bool), 15).error for each in probabilities]


def main(
    pools: Pools,
    model: Annotated[str, typer.Option(help="Model file, run folder or shipped name.")] = DEFAULT_MODEL,
    way: Annotated[list[int] | None, typer.Option(min=2, help="Classes.", show_default="5 and 10")] = None,
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Photos each.", show_default="1, 2, 3 and 5")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Query photos per class.")] = 6,
    episodes: Annotated[int, typer.Option(min=1, help="Random episodes per row.")] = 24,
    seed: Annotated[int, typer.Option(min=0, help="Of classes and episodes.")] = 0,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Measure calibration for few shots, with the learned gamma and with the temperature: 30 classes per draw."""
    with user_errors():
        resolve(model)
        set_threads(threads)
        extractor = TorchExtractor(load_model(model))
        shapes = [
            EpisodeShape(way=n, shot=k, queries=queries) for n, k in product(way or (5, 10), shot or (1, 2, 3, 5))
        ]
        found = []
        with progress_bar("draws") as show:
            for pool in pools:
                found += measure_calibration(pool_roots(pool), extractor, shapes, episodes=episodes, seed=seed)
                show(len(found), len(pools) * len(shapes))
    rows = [entry.as_json() for entry in found]
    if as_json:
        print_json({"model": model, "rows": rows})
        return
    print_table(
        ("pool", "way", "shot", "accuracy", "error, learned gamma", "error, tempered"),
        (
            (c.pool, str(c.way), str(c.shot), f"{c.accuracy:.1f}%", f"{c.learned:.1f}", f"{c.tempered:.1f}")
            for c in found
        ),
    )
    stdout().print(
        f"{model}, {episodes} episodes a row, {queries} queries per class; expected calibration error in points"
    )


if __name__ == "__main__":
    run(main)
