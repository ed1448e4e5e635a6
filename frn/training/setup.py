"""Starting point of a run: model, optimiser, validation episodes, and identifiers of its images."""

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import nn

from frn.data.pixel_cache import ConcatImages, StoredImages
from frn.episodes import EpisodeShape, check_classes
from frn.errors import FrnError
from frn.heads import networks_for
from frn.heads.frn import FRNHead
from frn.models.header import ModelConfig
from frn.models.model import Model
from frn.system.precision import seed_torch
from frn.training.presets import Preset, Schedule


def describe_images(images: StoredImages | ConcatImages) -> list[str]:
    """Return a description of each data set: its size, and a checksum of the classes' names and sizes."""
    said = []
    for part in images.parts:
        classes = repr(sorted(zip(part.names, part.sizes, strict=True))).encode()
        said.append(
            f"{len(part.names)} classes of {sum(part.sizes)} images ({hashlib.sha256(classes).hexdigest()[:8]})"
        )
    return said


def describe_weights(model: Model | None) -> str:
    """Return a checksum of the weights from which a run starts."""
    if model is None:
        return "random weights"
    checksum = 0
    for tensor in model.state_dict().values():
        checksum = zlib.crc32(tensor.cpu().contiguous().numpy(), checksum)
    return f"weights {checksum:08x}"


def new_model(preset: Preset, seed: int, init: Model | None = None, like: ModelConfig | None = None) -> Model:
    """Return the initial model of a preset, with the weights of `init` and the normalisation of `like`."""
    config = ModelConfig(
        backbone=preset.backbone, method=preset.method, last_pool=preset.last_pool, transform=preset.transform
    )
    if like is not None:
        config = replace(config, mean=like.mean, std=like.std)
    with torch.random.fork_rng(devices=[]):
        seed_torch(seed)
        model = Model(config)
    if init is not None:
        if init.config.backbone != preset.backbone:
            raise FrnError(
                f"--init is a {init.config.backbone} model, but the run trains {preset.backbone}. Give another model, "
                f"or --backbone {init.config.backbone}."
            )
        if networks_for(init.config.method) != networks_for(preset.method):
            raise FrnError(
                f"--init is a {init.config.method} model, and {preset.method} uses the maps of a different number of "
                "networks. Remove --init."
            )
        if init.adapter is not None:
            raise FrnError("--init was adapted by `frn finetune`. Give the model that it started from.")
        model.backbone.load_state_dict(init.backbone.state_dict())
        if init.config.method == preset.method:
            model.head.load_state_dict(init.head.state_dict())
    fix_regularisers(model, preset)
    return model


def fix_regularisers(model: Model, preset: Preset) -> None:
    """Freeze the parameters that the preset keeps at their initial value (supplement, Ablation Study)."""
    for name in preset.fixed:
        assert isinstance(model.head, FRNHead)  # only FRN presets fix parameters
        parameter = model.head.get_parameter({"lambda": "alpha", "rho": "beta"}[name])
        parameter.requires_grad_(False).zero_()


def build_optimizer(parameters: Iterable[nn.Parameter], schedule: Schedule) -> torch.optim.Optimizer:
    """Return SGD with momentum or Adam (with L2 decay, not AdamW); all trainable parameters form one group."""
    learned = [parameter for parameter in parameters if parameter.requires_grad]
    if schedule.optimizer == "adam":
        return torch.optim.Adam(learned, schedule.learning_rate, weight_decay=schedule.weight_decay)
    return torch.optim.SGD(
        learned,
        schedule.learning_rate,
        momentum=schedule.momentum,
        nesterov=schedule.nesterov,
        weight_decay=schedule.weight_decay,
    )


def validation_shape(preset: Preset, images: StoredImages) -> EpisodeShape:
    """Return the shape of validation episodes: 5-way with 16 queries, at the shot of training, as in the authors' code.

    There are fewer queries or classes if the split is small. Raises FrnError if it is too small for any episode.
    """
    shot = preset.validation.shot or preset.episode.shot
    queries = max(1, min(16, min(images.sizes) - shot))
    shape = EpisodeShape(way=max(2, min(5, len(images.sizes))), shot=shot, queries=queries)
    check_classes(images.names, images.sizes, shape, where="the validation split", every_class=True)
    return shape
