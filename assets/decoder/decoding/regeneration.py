"""Images regenerated from true and reconstructed feature maps, and their distance from the originals.

Shape letters: way classes, r locations, d channels, S pixels per side.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from decoding.fitting import decoder_input, targets
from decoding.network import Decoder
from frn.data.pixel_cache import Progress, StoredImages
from frn.episodes import EpisodeShape, check_classes, evaluation_episode
from frn.errors import FrnError
from frn.evaluation.features import TorchExtractor
from frn.heads.frn import FRNHead
from frn.images.transforms import Pixels
from frn.models.model import Model
from frn.ridge.reconstruction import reconstruct

GAP = 2
"""White pixels between the images of a grid."""


@dataclass(frozen=True, slots=True)
class PixelError:
    """The L2 pixel error: its mean over trials, and half the width of the 95% interval.

    For one image, the error is the root mean squared difference of pixels in [-1, 1]. The paper does not give the unit
    of the error.
    """

    mean: float
    ci95: float


REGENERATED_FROM = ("ground_truth", "same_class", "other_class")
"""The maps to decode: an image's own map, and its reconstructions by its own class and by the other classes."""


class Regenerator:
    """A model, its decoder, and the feature maps of a split."""

    def __init__(
        self, model: Model, decoder: Decoder, images: StoredImages, *, progress: Progress | None = None
    ) -> None:
        """Compute the feature maps. Raises FrnError if the model has no FRN head, which could not reconstruct them."""
        head = model.head
        if not isinstance(head, FRNHead):
            raise FrnError(f"a {model.config.method} model does not reconstruct; use a model trained with --method frn")
        self.model, self.decoder, self.images, self.head = model, decoder, images, head
        extractor = TorchExtractor(model, device=model.mean.device)
        self.maps = decoder_input(extractor.extract(images, progress))

    @torch.inference_mode()
    def rebuild(self, supports: Tensor, query: Tensor) -> Tensor:
        """Reconstruct query maps (queries, r, d) from supports (way, shot, r, d); return (way, queries, r, d)."""
        pool = supports.flatten(1, 2)
        lam, rho = self.head.lam(*pool.shape[1:]), self.head.rho()
        return reconstruct(query.flatten(0, 1), pool, lam, rho).unflatten(1, query.shape[:2])

    @torch.inference_mode()
    def trial(self, shape: EpisodeShape, *, seed: int, index: int) -> tuple[float, float, float]:
        """Return the mean L2 pixel errors of queries, decoded from their own maps, their class and other classes."""
        sampled = evaluation_episode(self.images.sizes, shape, seed=seed, index=index)
        numbers = sampled[:, shape.shot :].flatten()
        query = self.maps[numbers]
        rebuilt = self.rebuild(self.maps[sampled[:, : shape.shot]], query)
        pictures = self.decoder(torch.cat([query[None], rebuilt]).flatten(0, 1)).unflatten(0, (1 + shape.way, -1))
        original = targets(self.model, self.images.images()[numbers])
        error = (pictures - original).square().mean((-3, -2, -1)).sqrt()  # 1 + way, queries
        labels = torch.arange(shape.way, device=error.device).repeat_interleave(shape.queries)
        same = error[1:].gather(0, labels[None]).mean()
        other = (error[1:].sum() - same * len(labels)) / (error[1:].numel() - len(labels))
        return error[0].mean().item(), same.item(), other.item()

    def measure(
        self, shape: EpisodeShape, *, trials: int, seed: int, where: str = "the split", progress: Progress | None = None
    ) -> dict[str, PixelError]:
        """Measure the pixel errors over random episodes, one per trial. `where` names the images in error messages."""
        check_classes(self.images.names, self.images.sizes, shape, where=where, every_class=True)
        errors = np.empty((trials, 3))
        for index in range(trials):
            errors[index] = self.trial(shape, seed=seed, index=index)
            if progress:
                progress(index + 1, trials)
        halves = 1.96 * errors.std(axis=0) / math.sqrt(trials)
        return dict(zip(REGENERATED_FROM, map(PixelError, errors.mean(axis=0).tolist(), halves.tolist()), strict=True))

    @torch.inference_mode()
    def picture(self, shape: EpisodeShape, *, seed: int, where: str = "the split") -> Pixels:
        """Return a grid as in the paper's figures: supports on the left, queries of the first class on the right.

        The first row shows the queries. The next rows show images decoded from the queries' own maps, from the
        reconstruction by their own class, and from the reconstruction by each other class.
        """
        check_classes(self.images.names, self.images.sizes, shape, where=where, every_class=True)
        sampled = evaluation_episode(self.images.sizes, shape, seed=seed, index=0)
        pixels = self.images.images()
        numbers = sampled[0, shape.shot :]
        query = self.maps[numbers]
        rebuilt = self.rebuild(self.maps[sampled[:, : shape.shot]], query)
        pictures = self.decoder(torch.cat([query[None], rebuilt]).flatten(0, 1))
        shown = ((pictures.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).cpu().numpy()
        right = np.concatenate([pixels[numbers][None], shown.reshape(1 + shape.way, len(numbers), *shown.shape[1:])])
        left = np.full((2 + shape.way, shape.shot, *shown.shape[1:]), 255, dtype=np.uint8)
        left[2:] = pixels[sampled[:, : shape.shot]]
        tiles = np.concatenate([left, right], axis=1)  # rows, columns, S, S, 3
        framed = np.pad(tiles, ((0, 0), (0, 0), (GAP, 0), (GAP, 0), (0, 0)), constant_values=255)
        rows, columns, height, width, _ = framed.shape
        return framed.transpose(0, 2, 1, 3, 4).reshape(rows * height, columns * width, 3)
