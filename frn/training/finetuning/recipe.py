"""Preset of `frn finetune`, fitted to a model and to the user's classes.

The model decides what is trained (backbone, transform, normalisation); the photos decide the size of episodes, the
number of epochs and the validation classes. This module does not need torch.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from frn.data.augmentation import Augmentation
from frn.data.folders import ClassFolders, find_splits, scan
from frn.episodes import EpisodeShape, training_epoch
from frn.errors import FrnError
from frn.models.header import ModelConfig
from frn.training.presets import WITH_AUXILIARY_LOSS, Preset, Schedule, find_preset
from frn.training.presets.preset import TrainingData, ValidationProtocol

MIN_CLASSES = 10
"""Minimum number of classes. With fewer, or fewer than `PER_CLASS` photos each, training would memorise the photos."""
HELD_OUT = 0.25
"""Fraction of classes used for validation if there is no val/; at least three of seven or more."""
PER_CLASS = 10
"""Maximum photos of a class in an episode; half of them are supports, at most five."""
MAX_WAYS = 20
STEPS = 200
"""Approximate number of episodes, rounded to whole epochs."""
VALIDATIONS, VALIDATION_EPISODES = 2, 50
SCHEDULE = Schedule(epochs=8, milestones=(3, 5, 6, 7), learning_rate=0.002, lr_decay=0.4, warm_up=20)
"""Starts at a fifth of the learning rate of the shipped models' episodes and ends far below their last one."""
SHARES = (0.25, 0.5, 0.75)
"""Mixtures to try, as fractions of the way from initial to trained weights; close to 1, earlier knowledge is lost."""
CLASSICAL = 0.5
"""Weight of classification among all classes; episodes alone distinguish only a few at a time."""


def finetuning_folders(data: Path, seed: int) -> tuple[ClassFolders, ClassFolders]:
    """Return the classes to train on and those to validate on.

    These are train/ and val/ if both exist; otherwise classes of train/, or of `data` itself, are held out. Raises
    FrnError if there are fewer than `MIN_CLASSES`, or most have fewer than `PER_CLASS` photos.
    """
    if not data.is_dir():
        raise FrnError(f"{data}: no such folder")
    splits = find_splits(data)
    root = splits.get("train", data)
    folders = scan(root)
    photos = [len(files) for files in folders.files]
    val = scan(splits["val"]) if root != data and "val" in splits else None
    classes = len(photos) + len(val.names if val else ())
    if classes < MIN_CLASSES or _usual(photos) < PER_CLASS:
        raise FrnError(
            f"{data if val else root}: has {classes} classes, most with {_usual(photos)} photos or more; fine-tuning "
            f"needs {MIN_CLASSES} classes of {PER_CLASS} photos. `frn classify` works without training."
        )
    if val:
        return folders, val
    count = max(2 if len(folders.names) < 7 else 3, round(HELD_OUT * len(folders.names)))
    large = [name for name, size in zip(folders.names, photos, strict=True) if size >= _usual(photos)]
    held_out = set(np.random.default_rng(seed).permutation(large)[:count].tolist())
    return folders.without(held_out), folders.without(set(folders.names) - held_out)


def finetuning_data(config: ModelConfig, record: Mapping[str, object]) -> tuple[TrainingData, Augmentation]:
    """Return how photos are stored and augmented: as in the model's own training if its preset is known."""
    transform = config.transform
    with suppress(FrnError):
        own = find_preset(str(record.get("preset")))
        if own.transform.size == transform.size:
            return TrainingData(prepare="folder", max_side=own.data.max_side), own.augmentation
    side = max(transform.resize or transform.size, round(transform.size * 4 / 3))
    crops = Augmentation(size=transform.size, crop="resized", scale=(0.2, 1.0))
    return TrainingData(prepare="folder", max_side=side), crops


def finetuning_preset(
    config: ModelConfig,
    record: Mapping[str, object],
    sizes: Sequence[int],
    val_sizes: Sequence[int],
    epochs: int | None = None,
) -> Preset:
    """Return the preset for a model and for training and validation classes of these sizes.

    Args:
        config: configuration of the model.
        record: origin of the model; its preset says how photos are augmented.
        sizes: photos of each training class.
        val_sizes: photos of each validation class.
        epochs: number of epochs; None gives about `STEPS` episodes.

    Raises FrnError if the classes allow no episode, or the model is a frozen pretrained backbone.
    """
    if config.untrained_head:
        raise FrnError(
            f"{config.backbone} is a frozen pretrained backbone and cannot be fine-tuned. Its lambda, rho "
            "and gamma are chosen whenever you enroll classes"
        )
    data, augmentation = finetuning_data(config, record)
    shape = fitted_shape(sizes)
    epochs = epochs or -(-STEPS // len(training_epoch(sizes, shape, seed=0, epoch=0)))
    return Preset(
        about="a model adapted to your kind of photos",
        method=config.method,
        backbone=config.backbone,
        last_pool=config.last_pool,
        aux="reference" if config.method in WITH_AUXILIARY_LOSS else "off",
        aux_heads=("proto",) if config.method == "frn" else (),
        data=data,
        episode=shape,
        classifier_weight=CLASSICAL,
        schedule=SCHEDULE.scaled_to(epochs),
        augmentation=augmentation,
        freeze_batchnorm=True,
        transform=config.transform,
        validation=ValidationProtocol(
            every=-(-epochs // VALIDATIONS),
            shot=max(1, min(shape.shot, min(val_sizes) - 1)),
            episodes=VALIDATION_EPISODES,
            start=True,
            interpolation_weights=SHARES,
        ),
    )


def fitted_shape(sizes: Sequence[int]) -> EpisodeShape:
    """Return the largest usual episode for classes of these sizes; the smallest quarter of them may be skipped.

    With many classes, an episode uses half of them, so that episodes differ. Raises FrnError if too few classes have
    two photos.
    """
    per_class = min(PER_CLASS, _usual(sizes))
    serving = sum(size >= max(2, per_class) for size in sizes)
    if per_class < 2 or serving < 2:
        raise FrnError(
            f"only {serving} of {len(sizes)} training classes have two or more photos, but an episode needs at least "
            "two such classes. Add photos."
        )
    shot = min(5, per_class // 2)
    way = min(MAX_WAYS, max(min(5, serving), -(-serving // 2)))
    return EpisodeShape(way=way, shot=shot, queries=per_class - shot)


def _usual(sizes: Sequence[int]) -> int:
    """Return the number of photos that at least three quarters of the classes have."""
    return sorted(sizes)[len(sizes) // 4]
