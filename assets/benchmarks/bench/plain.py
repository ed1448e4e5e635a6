"""The authors' loops in plain form: each step decodes the images one by one, and Eq. 10 uses an inverse.

This code is new, but has the same data loader, order of layers and formulas as the authors' public code. The weights
are stored in a `Model`, so that both loops start from the same weights.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from frn.backbones.conv4 import ConvBlock
from frn.backbones.resnet12 import ResidualBlock
from frn.episodes import EpisodeShape
from frn.heads.frn import FRNHead
from frn.models.model import Model
from frn.system.precision import Precision, autocast
from frn.training.losses import AUX_WEIGHT

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
EQ_8, EQ_10, LEFT_TO_RIGHT = PLAIN = ("paper, Eq. 8", "paper, Eq. 10", "left to right")
"""The paper's two listings, and Eq. 8 computed from left to right, without a d x d matrix, as the text describes it."""

TRAINING = (
    transforms.RandomResizedCrop(84),
    transforms.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.4),
    transforms.RandomHorizontalFlip(),
)
EVALUATION = (transforms.Resize(92), transforms.CenterCrop(84))


class Photos(Dataset[Tensor]):
    """Image files that are decoded, transformed and normalised on each access."""

    def __init__(self, files: Sequence[Path], how: Sequence[nn.Module]) -> None:
        self.files = list(files)
        self.transform = transforms.Compose([*how, transforms.ToTensor(), transforms.Normalize(MEAN, STD)])

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        """Return one image (3, 84, 84)."""
        with Image.open(self.files[index]) as file:
            image: Tensor = self.transform(file.convert("RGB"))
        return image


def batches(
    files: Sequence[Path], how: Sequence[nn.Module], steps: Sequence[list[int]], device: torch.device
) -> Iterator[Tensor]:
    """Yield the images of each step, (b, 3, 84, 84), on the device."""
    # Number of worker processes in the authors' loader. Workers are used only with a GPU; on a CPU they would disturb
    # timings
    workers = 3 if device.type == "cuda" else 0
    for images in DataLoader(Photos(files, how), batch_sampler=steps, num_workers=workers):
        yield images.to(device)


def plain_maps(model: Model, images: Tensor) -> Tensor:
    """Compute feature maps (b, r, d) of normalised images by convolution, normalisation, ReLU, then pooling."""
    x = images
    for block in model.backbone.blocks:  # type: ignore[union-attr]  # Conv-4's and ResNet-12's both have some
        x = F.max_pool2d(
            F.relu(_normed(x, block.conv, block.norm)) if isinstance(block, ConvBlock) else _residual(x, block), 2
        )
    return x.float().flatten(2).mT / model.backbone.map_scale


def _residual(x: Tensor, block: ResidualBlock) -> Tensor:
    main = F.leaky_relu(_normed(x, *block.conv1), 0.1)
    main = F.leaky_relu(_normed(main, *block.conv2), 0.1)
    return F.leaky_relu(_normed(main, *block.conv3) + _normed(x, *block.shortcut), 0.1)


def _normed(x: Tensor, convolution: nn.Module, norm: nn.Module) -> Tensor:
    assert isinstance(convolution, nn.Conv2d)
    normed: Tensor = norm(nn.Conv2d._conv_forward(convolution, x, convolution.weight, convolution.bias))
    return normed


def rebuild_plainly(query: Tensor, pool: Tensor, lam: float | Tensor, rho: float | Tensor, formulation: str) -> Tensor:
    """Reconstruct queries from every class (way, n, d) with one of the `PLAIN` formulations and explicit inverses."""
    st = pool.mT
    if formulation == EQ_10:  # rho Q ((S^T S + lam I)^-1 S^T S)
        gram = st @ pool
        hat = _inverse(gram + lam * torch.eye(gram.shape[-1], device=pool.device)) @ gram
        return (query @ hat) * rho
    gram = pool @ st
    inverse = _inverse(gram + lam * torch.eye(gram.shape[-1], device=pool.device))
    if formulation == EQ_8:  # rho Q (S^T (S S^T + lam I)^-1 S)
        return (query @ (st @ inverse @ pool)) * rho
    return (query @ st @ inverse @ pool) * rho


def _inverse(systems: Tensor) -> Tensor:
    """Invert matrices (way, n, n), on a CPU one after the other.

    If torch 2.15 inverts several matrices on several threads at once, it hangs: its LU factorisation deadlocks.
    """
    return systems.inverse() if systems.is_cuda else torch.stack([system.inverse() for system in systems])


def plain_error(support: Tensor, query: Tensor, formulation: str, head: FRNHead | None = None) -> Tensor:
    """Compute class errors (queries, way) from reconstructed maps; without a head, alpha and beta are zero."""
    pool, locations = support.flatten(1, 2), query.flatten(0, 1)
    p, d = pool.shape[1:]
    lam: float | Tensor = p / d + 1e-6
    rho: float | Tensor = 1.0
    if head is not None:
        lam, rho = p / d * head.alpha.exp() + 1e-6, head.beta.exp()
    rebuilt = rebuild_plainly(locations, pool, lam, rho, formulation)
    return (rebuilt - locations).square().sum(-1).unflatten(1, query.shape[:2]).mean(-1).mT


def plain_loss(model: Model, maps: Tensor, shape: EpisodeShape) -> Tensor:
    """Compute an episode's cross-entropy and auxiliary loss from its maps; the supports of all classes come first."""
    supports = shape.way * shape.shot
    support, query = maps[:supports].unflatten(0, (shape.way, shape.shot)), maps[supports:]
    head = model.head
    assert isinstance(head, FRNHead)
    logits = -head.gamma * plain_error(support, query, EQ_10, head)
    target = torch.arange(shape.way, device=maps.device).repeat_interleave(shape.queries)
    return F.nll_loss(F.log_softmax(logits, dim=1), target) + AUX_WEIGHT * _auxiliary(support.flatten(1, 2))


def _auxiliary(pool: Tensor) -> Tensor:
    """Compute the auxiliary loss of pools (way, p, d), with one product for each pair of classes."""
    pool = pool / pool.norm()
    first, second = torch.triu_indices(len(pool), len(pool), offset=1)
    return (pool[first] @ pool[second].mT).square().sum()


class PlainTraining:
    """The authors' training loop, which trains on the images of one episode again and again."""

    def __init__(
        self, model: Model, files: Sequence[Path], shape: EpisodeShape, precision: Precision, device: torch.device
    ) -> None:
        """Train `model`; the files are those of one episode, with the supports of all classes first."""
        self.model, self.shape, self.precision, self.device = model.to(device).train(), shape, precision, device
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
        self.batches = batches(files, TRAINING, [list(range(len(files)))] * 10_000, device)

    def step(self) -> float:
        """Take a step and return its loss."""
        images = next(self.batches)
        with autocast(self.device, self.precision):
            maps = plain_maps(self.model, images)
        loss = plain_loss(self.model, maps, self.shape)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


@torch.no_grad()
def plain_accuracy(
    model: Model, files: Sequence[Path], episodes: Sequence[list[int]], shape: EpisodeShape, device: torch.device
) -> Iterator[float]:
    """Return the accuracy of each episode, computing the features of all its images each time.

    An episode is a list of file numbers, with the supports of all classes first.
    """
    model = model.to(device).eval()
    assert isinstance(model.head, FRNHead)
    target = torch.arange(shape.way, device=device).repeat_interleave(shape.queries)
    supports = shape.way * shape.shot
    for images in batches(files, EVALUATION, episodes, device):
        maps = plain_maps(model, images)
        support = maps[:supports].unflatten(0, (shape.way, shape.shot))
        error = plain_error(support, maps[supports:], EQ_10, model.head)
        yield (error.argmin(1) == target).float().mean().item()
