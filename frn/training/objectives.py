"""Objectives: the data for an optimiser step (an episode, or a pre-training batch over all classes) and its loss."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.episodes import Balance, Episode, balanced_shares, concat_epoch
from frn.errors import FrnError
from frn.heads.frn import FRNHead
from frn.heads.pretrain import DummyMapHead
from frn.models.model import Model
from frn.training.losses import episode_loss
from frn.training.presets import Preset


class EpisodicObjective(nn.Module):
    """Episodes from the authors' sampler: cross-entropy of the queries and the auxiliary loss (Eq. 9, Eq. 11)."""

    def __init__(self, preset: Preset, model: Model, sizes: Sequence[int]) -> None:
        super().__init__()
        self.shape, self.aux, self.balance = preset.episode, preset.aux, preset.data.balance

    def epoch(self, sets: Sequence[Sequence[int]], *, seed: int, epoch: int) -> list[Episode]:
        """Return episodes of image indices (way, shot + queries); `sets` gives the images per class of each set."""
        return concat_epoch(sets, self.shape, seed=seed, epoch=epoch, balance=self.balance)

    def score(self, model: Model, maps: Tensor, sampled: Episode) -> tuple[Tensor, Tensor, Tensor]:
        """Return loss, logits and targets of an episode's queries from its maps (images, r, d)."""
        shape = self.shape
        episode = maps.unflatten(0, (shape.way, shape.per_class))
        support, query = episode[:, : shape.shot], episode[:, shape.shot :].flatten(0, 1)
        logits = model.head(support, query)
        target = torch.arange(shape.way, device=logits.device).repeat_interleave(shape.queries)
        loss = episode_loss(logits, model.head.auxiliary_supports(support), shape.queries, self.aux)
        return loss, logits, target


class PretrainingObjective(nn.Module):
    """Shuffled batches of all classes; an incomplete last batch is dropped, as with the authors' `drop_last=True`."""

    def __init__(self, preset: Preset, model: Model, sizes: Sequence[int]) -> None:
        """Create the dummy maps of Sec. 3.6, or a linear classifier on average-pooled maps."""
        super().__init__()
        self.batch, self.balance = preset.pretraining.batch, preset.data.balance
        if sum(sizes) < self.batch:
            raise FrnError(f"the training split has {sum(sizes)} images, fewer than a batch of {self.batch}")
        self.labels = np.repeat(np.arange(len(sizes)), sizes)
        h, w = model.grid
        self.head: DummyMapHead | nn.Linear
        if preset.objective == "average-pretrain":
            self.head = nn.Linear(model.d, len(sizes))
            return
        assert isinstance(model.head, FRNHead)  # guaranteed by the preset
        self.head = DummyMapHead(len(sizes), h * w, model.d)
        for fixed in (model.head.alpha, model.head.beta):
            fixed.requires_grad_(False)

    def epoch(self, sets: Sequence[Sequence[int]], *, seed: int, epoch: int) -> list[Episode]:
        """Return batches of image indices (batch,)."""
        generator = np.random.default_rng([seed, epoch])
        order = generator.permutation(sum(map(sum, sets)))
        if self.balance != 1.0 and len(sets) > 1:
            order = generator.permutation(_balanced([sum(sizes) for sizes in sets], self.balance, generator))
        return list(order[: len(order) // self.batch * self.batch].reshape(-1, self.batch))

    def score(self, model: Model, maps: Tensor, sampled: Episode) -> tuple[Tensor, Tensor, Tensor]:
        """Return loss, logits and targets of a batch among all classes from its maps (images, r, d)."""
        if isinstance(self.head, DummyMapHead):
            logits = self.head(maps, model.head)
        else:  # undo FRN's scaling for a linear classifier
            logits = self.head((maps * model.map_scale(model.head)).mean(1))
        target = torch.from_numpy(self.labels[sampled]).to(logits.device)
        return F.cross_entropy(logits, target), logits, target


Objective = EpisodicObjective | PretrainingObjective
"""Draws the images of each step and scores their feature maps; its parameters are not part of the model."""


def _balanced(lengths: Sequence[int], balance: Balance, generator: np.random.Generator) -> Episode:
    """Draw the images of an epoch by `balanced_shares`; a set repeats an image only after all others."""
    sampled = []
    for start, length, share in zip(np.cumsum([0, *lengths]), lengths, balanced_shares(lengths, balance), strict=False):
        turns = [generator.permutation(length) for _ in range(-(-share // length))]
        sampled.append(start + np.concatenate(turns)[:share])
    return np.concatenate(sampled)
