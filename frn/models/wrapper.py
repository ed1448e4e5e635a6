"""FRN on a custom backbone, for training loops and few-shot code outside this package."""

from typing import Self

import torch
from torch import Tensor, nn

from frn.errors import FrnError
from frn.heads.frn import FRNHead
from frn.heads.head import Head


class FRN(nn.Module):
    """A backbone with a head that compares its feature maps.

    The backbone takes images (b, 3, H, W), normalised as it requires, and returns maps (b, d, h, w), tokens (b, r, d)
    or vectors (b, d), which are maps with one location. The support set is given with each call or in advance:

    >>> logits = model(support, labels, query)  # images, their classes, images to (queries, way)
    >>> logits = model.process_support_set(support, labels)(query)  # the same
    >>> logits = model(support, query=query)  # images (way, shot, 3, H, W): without labels, so that it can be exported

    Columns are the classes in the order of their labels. Classes may have different numbers of supports if the head
    says how (`unequal`).
    """

    def __init__(self, backbone: nn.Module, head: Head | None = None, *, scale: float | None = None) -> None:
        """Combine a backbone and a head.

        Args:
            backbone: any image network.
            head: one of `frn.heads`; FRN's by default.
            scale: divisor of the maps; None uses sqrt(d), as the paper's supplement does for ResNet-12.
        """
        super().__init__()
        self.backbone = backbone
        self.head = FRNHead() if head is None else head
        self.scale = scale
        self.pools: list[Tensor] = []
        """Maps (k, r, d) of each class of the processed support set."""

    def feature_maps(self, images: Tensor) -> Tensor:
        """Return maps (b, r, d) of images (b, 3, H, W), at least float32 because the closed form follows."""
        maps: Tensor = self.backbone(images)
        if maps.ndim not in (2, 3, 4):
            raise FrnError(f"the backbone returns {tuple(maps.shape)}, not maps (b, d, h, w), (b, r, d) or (b, d)")
        maps = maps.flatten(2).mT if maps.ndim == 4 else maps[:, None] if maps.ndim == 2 else maps
        maps = maps.to(torch.promote_types(maps.dtype, torch.float32))
        return maps / (maps.shape[-1] ** 0.5 if self.scale is None else self.scale)

    def process_support_set(self, support: Tensor, labels: Tensor) -> Self:
        """Store the support set for later queries: images (n, 3, H, W) and their classes (n,), any integers."""
        self.pools = by_class(self.feature_maps(support), labels)
        return self

    def forward(self, support: Tensor, labels: Tensor | None = None, query: Tensor | None = None) -> Tensor:
        """Return logits (queries, way) of queries (q, 3, H, W) for a support set; both are normalised as one batch.

        A single argument contains the queries; the processed support set is then used. Labels are read, which breaks a
        compiled graph; supports (way, shot, 3, H, W) need none. Raises FrnError if there is no support set.
        """
        if labels is None and query is not None and support.ndim == 5:
            way, shot = support.shape[:2]
            maps = self.feature_maps(torch.cat([support.flatten(0, 1), query]))
            logits: Tensor = self.head(maps[: way * shot].unflatten(0, (way, shot)), maps[way * shot :])
            return logits
        if labels is None or query is None:
            if labels is not query or not self.pools:
                raise FrnError("pass support, labels and query, or after process_support_set only query")
            return self.head.compare(self.pools, self.feature_maps(support))
        if support.shape[1:] == query.shape[1:]:
            maps = self.feature_maps(torch.cat([support, query]))
            return self.head.compare(by_class(maps[: len(support)], labels), maps[len(support) :])
        return self.head.compare(by_class(self.feature_maps(support), labels), self.feature_maps(query))


def by_class(maps: Tensor, labels: Tensor) -> list[Tensor]:
    """Return maps (n, r, d) of each class, in the order of the labels (n,). Raises FrnError if their numbers differ."""
    if labels.shape != maps.shape[:1]:
        raise FrnError(f"{len(maps)} images, but labels have shape {tuple(labels.shape)}")
    return [maps[labels == label] for label in labels.unique()]
