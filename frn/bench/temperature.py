"""Probabilities at few shots: how well they are calibrated with gamma as it was learned, and with its temperature.

The expected calibration error is of the queries of random episodes; labels are the same under both.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from frn.bench.pools import draw_classes, link_classes, pooled_classes
from frn.data.folders import scan
from frn.data.pixel_cache import load_images
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.evaluation.episodes import evaluate_episodes
from frn.evaluation.features import TorchExtractor
from frn.evaluation.tally import Tally
from frn.ridge.parameters import temperature

CLASSES, PHOTOS = 30, 20
"""Of a draw, and of a class at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FewShotCalibration:
    """One shape's expected calibration error, in points."""

    pool: str
    way: int
    shot: int
    learned: float
    """With gamma as it was learned."""
    tempered: float
    """With `frn.ridge.parameters.temperature`, as photos are classified."""
    accuracy: float
    """In percent."""

    def as_json(self) -> dict[str, object]:
        """What `frn bench temperature --json` says of it."""
        return asdict(self)


def measure_calibration(
    roots: Sequence[Path], extractor: TorchExtractor, shapes: Sequence[EpisodeShape], *, episodes: int, seed: int
) -> list[FewShotCalibration]:
    """Draw classes from folders of class folders and measure every shape on them.

    FrnError if the model has no FRN head, or the classes are too few or too small.
    """
    head = extractor.new_head()
    if head.ridge is None or extractor.model.config.untrained_head:
        raise FrnError("this asks for a model whose FRN head has learned gamma")
    least = max(shape.per_class for shape in shapes)
    drawn = draw_classes(pooled_classes(roots), CLASSES, max(PHOTOS, least), seed, least=least)
    with tempfile.TemporaryDirectory() as place:
        link_classes(drawn, Path(place))
        images = load_images(scan(Path(place)), extractor.transform)
        maps = extractor.extract(images)
    found = []
    for shape in shapes:
        tally = _TwoTallies(images.sizes, shape, episodes)
        accuracy = evaluate_episodes(head, maps, images.sizes, shape, episodes=episodes, seed=seed, tally=tally)
        found.append(
            FewShotCalibration(
                pool=" + ".join(map(str, roots)),
                way=shape.way,
                shot=shape.shot,
                learned=100 * tally.calibration().error,
                tempered=100 * tally.tempered.calibration().error,
                accuracy=accuracy.mean,
            )
        )
    return found


class _TwoTallies(Tally):
    """A tally of the answers, and one of the same answers at the temperature of their shots."""

    def __init__(self, sizes: Sequence[int], shape: EpisodeShape, episodes: int) -> None:
        super().__init__(sizes, shape, episodes)
        self.tempered = Tally(sizes, shape, episodes)
        self.factor = temperature(1.0, [shape.shot])

    def add(self, start: int, drawn: NDArray[np.int64], logits: NDArray[np.floating]) -> None:
        """Note episodes with their logits."""
        super().add(start, drawn, logits)
        self.tempered.add(start, drawn, self.factor * logits)
