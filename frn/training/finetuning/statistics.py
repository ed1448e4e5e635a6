"""Measurements on the photos before fine-tuning: batch normalisation statistics and class means.

The running statistics are means and variances of a network's inputs. Training would replace them with those of a few
classes' training crops, which differ from the photos that the model is later used on. But the old statistics may not
fit a different kind of photo either. So they are frozen while weights are trained, and may first be mixed with those of
the photos.
"""

import copy
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from frn.data.batch_augmentation import augment
from frn.data.pixel_cache import ConcatImages, StoredImages
from frn.models.model import Model
from frn.system.precision import autocast
from frn.training.presets import Preset
from frn.training.runs.run import RunSettings

SHARES = (0.3, 0.6, 1.0)
"""Fractions of the photos' own statistics to try; validation selects one."""
PHOTOS, BATCH = 512, 64
PER_CLASS = 12
"""Number of photos that a class mean is computed from."""
MIN_CROP = 0.6
"""Minimum fraction of a photo in a crop: nearly all of it, as outside training."""


def norms(model: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """Return the layers that have running statistics."""
    found = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    return [norm for norm in found if norm.track_running_stats]


def begin_training(model: Model, preset: Preset) -> None:
    """Put a model into training mode, except its batch normalisation if the preset freezes it."""
    model.train()
    if preset.freeze_batchnorm:
        for norm in norms(model):
            norm.eval()


def statistics_of(model: nn.Module) -> list[Tensor]:
    """Return the means and variances of every layer of a model; writing to them changes the model."""
    return [value for norm in norms(model) for value in (norm.running_mean, norm.running_var) if value is not None]


@torch.no_grad()
def measure_statistics(
    model: Model, images: StoredImages | ConcatImages, preset: Preset, settings: RunSettings
) -> list[Tensor]:
    """Return the statistics of photos as seen outside training: nearly whole, at the model's size."""
    other = copy.deepcopy(model).eval()
    for norm in norms(other):
        norm.reset_running_stats()
        norm.momentum = None  # average over all batches
        norm.train()
    chosen = np.random.default_rng([settings.seed, 2]).permutation(len(images))[:PHOTOS]
    for _ in _nearly_whole(other, images, chosen, preset, settings):
        pass
    return statistics_of(other)


@torch.no_grad()
def class_means(model: Model, images: StoredImages | ConcatImages, preset: Preset, settings: RunSettings) -> Tensor:
    """Return mean average-pooled maps (classes, d) over some photos of each class, as seen outside training."""
    model.eval()
    starts = np.cumsum([0, *images.sizes])
    means = []
    for start, size in zip(starts, images.sizes, strict=False):
        chosen = start + np.random.default_rng([settings.seed, 4, start]).permutation(size)[:PER_CLASS]
        means.append(torch.cat([*_nearly_whole(model, images, chosen, preset, settings)]).mean((0, 1)))
    return torch.stack(means)


def _nearly_whole(
    model: Model, images: StoredImages | ConcatImages, chosen: NDArray[np.int64], preset: Preset, settings: RunSettings
) -> Iterator[Tensor]:
    """Yield the maps of these photos, batch by batch."""
    generator = np.random.default_rng([settings.seed, 5])
    whole = preset.augmentation.whole(preset.transform.size, MIN_CROP)
    for start in range(0, len(chosen), BATCH):
        batch = augment(*images.gather(chosen[start : start + BATCH]), whole, generator, settings.device)
        with autocast(settings.device, settings.precision):
            maps = model.feature_maps(batch)
        yield maps
