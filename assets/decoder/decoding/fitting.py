"""Train an image decoder on feature maps from a frozen backbone (supplement, Image Decoder).

The decoder is trained with the L1 loss, Adam and batches of 200. The learning rate starts at 0.01 and is divided by
four after each fifth of the epochs. The paper does not say how images are prepared. Here images are prepared as for
evaluation, without augmentation, in [-1, 1], which is the range of the final Tanh.
"""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from decoding.network import Decoder, build_decoder
from frn.data.pixel_cache import Progress, StoredImages
from frn.errors import FrnError
from frn.models.header import STAGE, read_header
from frn.models.model import Model
from frn.system.precision import autocast, keep_freed_memory, seed_torch
from frn.training.runs.run import RunFolder, RunResult, RunSettings, TrainingRun, read_tensors
from frn.training.setup import describe_images


@dataclass(frozen=True, kw_only=True, slots=True)
class DecoderSchedule:
    """Return the settings of the decoder: objective, seed, epochs and batch."""

    epochs: int = 200
    """The paper's number of epochs for mini-ImageNet; for CUB, the paper uses 500."""
    batch: int = 200

    def learning_rate_at(self, epoch: int) -> float:
        """Return the learning rate of an epoch, counted from 0; it is divided by four after each fifth of the run."""
        return 0.01 / 4 ** (5 * epoch // self.epochs)


def decoder_for(model: Model) -> Decoder:
    """Build an untrained decoder for a model's feature maps."""
    return build_decoder(model.d, grid=model.grid[0], size=model.config.transform.size)


def decoder_input(maps: Tensor) -> Tensor:
    """Return maps (..., r, d) times sqrt(d), the form in which they are reconstructed and decoded.

    The paper multiplies ResNet-12's maps by sqrt(640), which undoes their normalisation: lambda is small relative to
    larger features, and reconstructions stay in the range that the decoder has learned. Conv-4's maps are not
    normalised, but multiplying them by sqrt(64) has the same effect.
    """
    return maps * maps.shape[-1] ** 0.5


def targets(model: Model, pixels: NDArray[np.uint8]) -> Tensor:
    """Return images (b, 3, S, S) in [-1, 1], on the model's device, from pixels (b, S, S, 3)."""
    return torch.from_numpy(pixels).to(model.mean.device).permute(0, 3, 1, 2).float() / 127.5 - 1


def train_decoder(
    model: Model,
    images: StoredImages,
    out: Path,
    schedule: DecoderSchedule,
    settings: RunSettings,
    *,
    progress: Progress = lambda done, total: None,
    stop: Callable[[], bool] = lambda: False,
) -> RunResult:
    """Train a decoder; `last.safetensors` in `out` always contains the current result.

    The model itself does not change, and images are prepared with its own transform. `stop` is called after every step.
    Raises FrnError if the folder is in use or cannot be written, or its run has different settings.
    """
    keep_freed_memory()
    model = model.to(settings.device)
    with torch.random.fork_rng(devices=[]):
        seed_torch(settings.seed)
        decoder = decoder_for(model).to(settings.device)
    optimizer = torch.optim.Adam(decoder.parameters(), schedule.learning_rate_at(0))
    decides = {
        "objective": "decoder",
        "model": fingerprint(model),
        "images": describe_images(images),
        "seed": settings.seed,
    }
    decides |= {"precision": settings.precision, **asdict(schedule)}
    run = TrainingRun(RunFolder(out), model, decoder, optimizer, decides, settings)
    position = run.position
    size = min(schedule.batch, len(images))

    def draw() -> list[NDArray[np.intp]]:
        order = np.random.default_rng([settings.seed, position.epoch]).permutation(len(images))
        return [np.sort(order[first : first + size]) for first in range(0, len(images) - size + 1, size)]

    def take(chosen: NDArray[np.intp], steps: int) -> None:
        rate = schedule.learning_rate_at(position.epoch)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = _step(model, decoder, optimizer, images.images()[chosen], settings)
        done = position.total_steps + 1
        run.folder.append_metrics(total_steps=done, epoch=position.epoch + 1, loss=round(loss, 5), learning_rate=rate)
        progress(done, steps * schedule.epochs)

    return run.run_epochs(schedule.epochs, draw, take, stop)


def _step(
    model: Model, decoder: nn.Module, optimizer: torch.optim.Optimizer, pixels: NDArray[np.uint8], settings: RunSettings
) -> float:
    target = targets(model, pixels)
    decoder.train()
    with autocast(settings.device, settings.precision):
        with torch.no_grad():
            maps = decoder_input(model.feature_maps((target + 1) / 2))
        regenerated = decoder(maps)
    loss = (regenerated.float() - target).abs().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    value = loss.item()
    if not np.isfinite(value):
        raise FrnError(f"the loss is {value}: use --precision fp32, or another --seed")
    return value


def load_decoder(path: Path, model: Model) -> Decoder:
    """Load a decoder in evaluation mode on the model's device.

    Raises FrnError if there is no decoder, or if it was trained for a different model.
    """
    file = path / "last.safetensors" if path.is_dir() else path
    if not file.is_file():
        raise FrnError(f"{path}: contains no decoder. `visualize.py train MODEL --data DIR --out {path}` trains one.")
    _, record = read_header(file)
    run = record.get("training", {}).get("run", {})
    if run.get("objective", run.get("stage")) != "decoder":
        raise FrnError(f"{file}: is a model, not a decoder. `visualize.py train` trains one.")
    if run["model"] != fingerprint(model):
        raise FrnError(f"{file}: was trained on the feature maps of another model ({run['model']})")
    decoder = decoder_for(model)
    decoder.load_state_dict(read_tensors(file, STAGE))
    return decoder.to(model.mean.device).eval()


def fingerprint(model: Model) -> str:
    """Return an identifier of a model's backbone: the start of a checksum of its weights."""
    digest = hashlib.sha256()
    for name, tensor in model.backbone.state_dict().items():
        digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:12]
