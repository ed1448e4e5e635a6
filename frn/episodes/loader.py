"""Episodes from any map-style `Dataset` with labels, using torch's `DataLoader`."""

from collections.abc import Iterator, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Sampler, Subset

from frn.episodes import EpisodeShape, check_classes, evaluation_episode, group_by_class
from frn.errors import FrnError


class TaskBatch(NamedTuple):
    """Images of an episode, (way * shot, 3, H, W) and (way * queries, 3, H, W), class by class; labels start at 0."""

    support: Tensor
    support_labels: Tensor
    query: Tensor
    query_labels: Tensor


class EpisodeSampler(Sampler[list[int]]):
    """A `batch_sampler` whose batches are the indices of an episode: the supports of each class, then its queries.

    >>> sampler = EpisodeSampler(dataset, way=5, shot=5, queries=15, episodes=100)
    >>> for images, _ in DataLoader(dataset, batch_sampler=sampler):
    ...     support, labels, query, target = sampler.split(images)

    An epoch depends only on the seed and on the number of epochs before it, so all workers and machines draw the same
    episodes.
    """

    def __init__(
        self,
        dataset: Sized | Sequence[Any],
        *,
        way: int,
        shot: int,
        queries: int,
        episodes: int,
        seed: int = 0,
        labels: Sequence[Any] | None = None,
    ) -> None:
        """Group the images by class.

        Args:
            dataset: a dataset with its labels as `targets`, `labels` or `samples`, as in torchvision; or a `Subset`
                or `ConcatDataset` of such.
            way: classes per episode.
            shot: supports per class.
            queries: queries per class.
            episodes: episodes per epoch.
            seed: seed of the random episodes.
            labels: labels of the images, if the dataset has none.

        Raises FrnError if the labels are unknown, an image has several, or fewer than `way` classes have enough images.
        """
        self.shape = EpisodeShape(way=way, shot=shot, queries=queries)
        self.episodes, self.seed, self.epoch = episodes, seed, 0
        known = np.asarray(labels_of(dataset) if labels is None else labels)
        if len(known) != len(dataset):
            raise FrnError(f"the dataset has {len(dataset)} images but {len(known)} labels")
        if known.ndim != 1:
            raise FrnError(f"labels have shape {known.shape}. Pass one label per image to EpisodeSampler.")
        names, of_each = group_by_class(known)
        members = [np.flatnonzero(of_each == index) for index in range(len(names))]
        check_classes(names, list(map(len, members)), self.shape, where="the dataset", every_class=False)
        self.members = [images for images in members if len(images) >= self.shape.per_class]

    def __len__(self) -> int:
        return self.episodes

    def __iter__(self) -> Iterator[list[int]]:
        order, sizes = np.concatenate(self.members), list(map(len, self.members))
        first, self.epoch = self.epoch * self.episodes, self.epoch + 1
        for index in range(first, first + self.episodes):
            sampled = evaluation_episode(sizes, self.shape, seed=self.seed, index=index)
            yield order[sampled].ravel().tolist()

    def split(self, images: Tensor) -> TaskBatch:
        """Split a batch of images (way * (shot + queries), 3, H, W) into supports and queries with their labels."""
        shape = self.shape
        episode = images.unflatten(0, (shape.way, shape.per_class))
        classes = torch.arange(shape.way, device=images.device)
        return TaskBatch(
            episode[:, : shape.shot].flatten(0, 1),
            classes.repeat_interleave(shape.shot),
            episode[:, shape.shot :].flatten(0, 1),
            classes.repeat_interleave(shape.queries),
        )


def labels_of(dataset: Any) -> np.typing.NDArray[Any]:
    """Return the labels of a dataset's images, (n,). Raises FrnError if the dataset does not have them."""
    if isinstance(dataset, Subset):
        return labels_of(dataset.dataset)[np.asarray(dataset.indices)]
    if isinstance(dataset, ConcatDataset):
        return np.concatenate([labels_of(part) for part in dataset.datasets])
    for name in ("targets", "labels", "_labels"):
        if (labels := getattr(dataset, name, None)) is not None:
            return np.asarray(labels)
    if (samples := getattr(dataset, "samples", None)) is not None:
        return np.asarray([label for _, label in samples])
    raise FrnError(
        f"{type(dataset).__name__} has no targets, labels or samples: pass the labels of its images to EpisodeSampler"
    )
