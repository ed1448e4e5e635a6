"""An image decoder: a reversed backbone that turns feature maps back into pixels (supplement, Image Decoder).

It is trained on the maps of a frozen model with the L1 loss, Adam and batches of 200. The learning rate starts at 0.01
and is divided by four after each fifth of the epochs. The paper does not say how images are prepared. Here they are
prepared as for evaluation, without augmentation, in [-1, 1], which is the range of the final Tanh.

Shape letters: b maps, r locations on a square grid, d channels, S pixels per side.
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from frn.data.pixel_cache import Progress, StoredImages
from frn.errors import FrnError
from frn.models.header import STAGE, read_header
from frn.models.model import Model
from frn.system.precision import autocast, keep_freed_memory, seed_torch
from frn.training.runs.run import RunFolder, RunResult, RunSettings, TrainingRun, read_tensors
from frn.training.setup import describe_images, describe_weights

WIDTH, NARROW = 64, 16  # channels of the last residual block, for wide backbones (ResNet-12) and narrow ones (Conv-4)


class UpBlock(nn.Module):
    """Adds two branches and applies ELU; each branch doubles height and width by a transposed convolution."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()

        def up() -> nn.Sequential:
            doubling = nn.ConvTranspose2d(channels_in, channels_out, 4, stride=2, padding=1, bias=False)
            return nn.Sequential(doubling, nn.BatchNorm2d(channels_out))

        self.shortcut = up()
        self.main = nn.Sequential(
            nn.Conv2d(channels_in, channels_in, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_in),
            nn.ReLU(inplace=True),
            *up(),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (b, channels_in, h, w) to (b, channels_out, 2h, 2w)."""
        return F.elu(self.main(x) + self.shortcut(x), inplace=True)


class Decoder(nn.Module):
    """A block per pooling layer of the backbone, then a bilinear resize to S x S and a projection to three channels.

    For ResNet-12 at 84 pixels this is the paper's decoder: 640 x 5 x 5 to 512 x 10 x 10, then halving the channels down
    to 64 x 80 x 80. The decoder for Conv-4 is a quarter as wide, and never wider than the feature maps.
    """

    def __init__(self, d: int, *, grid: int, size: int) -> None:
        """Build layers for maps of d channels and `grid` locations per side, and images of `size` pixels per side."""
        super().__init__()
        self.grid, self.size = grid, size
        width = WIDTH if d > WIDTH else NARROW
        widths = [min(d, width * 2**remaining) for remaining in reversed(range(int(math.log2(size / grid))))]
        self.blocks = nn.Sequential(*(UpBlock(*pair) for pair in zip([d, *widths], widths, strict=False)))
        self.project = nn.Conv2d(widths[-1], 3, 3, padding=1)

    @classmethod
    def of(cls, model: Model) -> "Decoder":
        return cls(model.d, grid=model.grid[0], size=model.config.transform.size)

    def forward(self, maps: Tensor) -> Tensor:
        """Decode feature maps (b, r, d) to images (b, 3, S, S) in [-1, 1]."""
        x = self.blocks(maps.mT.unflatten(2, (self.grid, self.grid)))
        if x.shape[-1] != self.size:
            x = F.interpolate(x, (self.size, self.size), mode="bilinear", align_corners=False)
        return self.project(x).tanh()


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
    settings: RunSettings,
    *,
    epochs: int = 200,
    batch: int = 200,
    progress: Progress = lambda done, total: None,
    stop: Callable[[], bool] = lambda: False,
) -> RunResult:
    """Train a decoder; `last.safetensors` in `out` always contains the current result.

    The paper has 200 epochs for mini-ImageNet and 500 for CUB. The model itself does not change, and images are
    prepared with its own transform. `stop` is called after every step. Raises FrnError if the folder is in use or
    cannot be written, or its run has different settings.
    """
    keep_freed_memory()
    model = model.to(settings.device)
    with torch.random.fork_rng(devices=[]):
        seed_torch(settings.seed)
        decoder = Decoder.of(model).to(settings.device).train()
    optimizer = torch.optim.Adam(decoder.parameters())
    decides: dict[str, object] = {"objective": "decoder", "seed": settings.seed, "precision": settings.precision}
    decides |= {"model": describe_weights(model), "images": describe_images(images), "epochs": epochs, "batch": batch}
    run = TrainingRun(RunFolder(out), model, decoder, optimizer, decides, settings)
    position, size = run.position, min(batch, len(images))

    def draw() -> list[NDArray[np.intp]]:
        order = np.random.default_rng([settings.seed, position.epoch]).permutation(len(images))
        return [np.sort(order[first : first + size]) for first in range(0, len(images) - size + 1, size)]

    def take(chosen: NDArray[np.intp], steps: int) -> None:
        rate = learning_rate_at(position.epoch, epochs)
        for group in optimizer.param_groups:
            group["lr"] = rate
        target = targets(model, images.images()[chosen])
        with autocast(settings.device, settings.precision):
            with torch.no_grad():
                maps = decoder_input(model.feature_maps((target + 1) / 2))
            regenerated = decoder(maps)
        loss = (regenerated.float() - target).abs().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        value, done = loss.item(), position.total_steps + 1
        if not np.isfinite(value):
            raise FrnError(f"the loss is {value}: use --precision fp32, or another --seed")
        run.folder.append_metrics(total_steps=done, epoch=position.epoch + 1, loss=round(value, 5), learning_rate=rate)
        progress(done, steps * epochs)

    return run.run_epochs(epochs, draw, take, stop)


def learning_rate_at(epoch: int, epochs: int) -> float:
    """Return the learning rate of an epoch, counted from 0; it is divided by four after each fifth of the run."""
    return 0.01 / 4 ** (5 * epoch // epochs)


def load_decoder(path: Path, model: Model) -> Decoder:
    """Load the decoder in a run folder in evaluation mode on the model's device.

    Raises FrnError if there is no decoder, or if it was trained for a different model.
    """
    file = path / "last.safetensors"
    run = read_header(file)[1].get("training", {}).get("run", {}) if file.is_file() else {}
    if run.get("objective") != "decoder":
        raise FrnError(f"{path}: contains no decoder. `visualize.py train MODEL --data DIR --out {path}` trains one.")
    if run["model"] != describe_weights(model):
        raise FrnError(f"{path}: was trained on the feature maps of another model ({run['model']})")
    decoder = Decoder.of(model)
    decoder.load_state_dict(read_tensors(file, STAGE))
    return decoder.to(model.mean.device).eval()
