"""A classifier from a few images per class: supports become pools, a query goes to the class that rebuilds it best."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from frn.data.cache import Broken
from frn.errors import FrnError
from frn.images import Pixels, open_image
from frn.model import Model

BATCH = 64


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the classes say of one image."""

    probabilities: dict[str, float]
    """Sum to one over the classes (Eq. 9)."""
    errors: dict[str, float]
    """Mean squared reconstruction error of each class (Eq. 4)."""

    @property
    def label(self) -> str:
        """The class that rebuilds the image best."""
        return min(self.errors, key=self.errors.__getitem__)


class Classifier:
    """Enrolled classes over a model. Classes may have different numbers of images."""

    def __init__(self, model: Model) -> None:
        self.model = model.eval()
        self.pools: dict[str, Tensor] = {}

    @torch.inference_mode()
    def enroll(self, classes: Mapping[str, Sequence[Path]]) -> list[Broken]:
        """Add classes from image files.

        Returns:
            The files that could not be read; the rest of their class is used.

        Raises:
            FrnError: if a class has no readable image.
        """
        broken: list[Broken] = []
        for name, paths in classes.items():
            maps = []
            for path, outcome in self._maps(paths):
                if isinstance(outcome, FrnError):
                    broken.append(Broken(str(path), str(outcome)))
                else:
                    maps.append(outcome)
            if not maps:
                reason = f" The first: {broken[-1].reason}" if broken else ""
                raise FrnError(f"class {name!r} has no readable image among {len(paths)} files.{reason}")
            self.pools[name] = torch.stack(maps)  # shot, r, d
        return broken

    @torch.inference_mode()
    def classify(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Prediction | FrnError]]:
        """Classify image files, in order; a broken one yields its error and stops nothing."""
        for path, outcome in self._maps(paths):
            yield path, outcome if isinstance(outcome, FrnError) else self._predict(outcome)

    def _predict(self, query: Tensor) -> Prediction:
        # One class at a time, since their shots may differ; lambda follows each pool's own size.
        errors = torch.cat([self.model.class_error(pool[None], query[None])[0] for pool in self.pools.values()])
        logits = -self.model.gamma * errors
        probabilities = logits.double().softmax(0)
        return Prediction(
            dict(zip(self.pools, probabilities.tolist(), strict=True)),
            dict(zip(self.pools, errors.tolist(), strict=True)),
        )

    def _maps(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Tensor | FrnError]]:
        """Feature maps (r, d) of image files, computed in batches, in order."""
        waiting: list[tuple[Path, Pixels | FrnError]] = []
        for path in paths:
            try:
                waiting.append((path, self.model.config.transform(open_image(path))))
            except FrnError as error:
                waiting.append((path, error))
            if len(waiting) == BATCH:
                yield from self._forward(waiting)
                waiting = []
        yield from self._forward(waiting)

    def _forward(self, waiting: list[tuple[Path, Pixels | FrnError]]) -> Iterator[tuple[Path, Tensor | FrnError]]:
        pixels = [pixels for _, pixels in waiting if not isinstance(pixels, FrnError)]
        maps: Iterator[Tensor] = iter(())
        if pixels:
            batch = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float() / 255
            maps = iter(self.model.feature_maps(batch))
        for path, outcome in waiting:
            yield path, outcome if isinstance(outcome, FrnError) else next(maps)
