"""FRN head: the score of a class is how well its supports reconstruct the query (Sec. 3.1-3.2)."""

from collections.abc import Sequence
from dataclasses import asdict

import torch
from torch import Tensor, nn

from frn.heads.head import Head
from frn.ridge.parameters import HeadParameters, rescaled_lambda
from frn.ridge.reconstruction import class_error
from frn.ridge.tuning import FLAT, TuningEpisode, tune


class FRNHead(Head):
    """Head that scores a query by how well each class's pool reconstructs its feature map (Eq. 5-9).

    Alpha and beta start at zero, so lambda = p / d and rho = 1 initially; gamma is the temperature.
    """

    unequal = "repeat"
    scaled_maps = True
    has_auxiliary_loss = True

    def __init__(self) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(()))
        self.beta = nn.Parameter(torch.zeros(()))
        self.gamma = nn.Parameter(torch.ones(()))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        return -self.gamma * self.class_error(support, query)

    def class_error(self, support: Tensor, query: Tensor) -> Tensor:
        """Return <Q, Q_c> of Eq. 4, (queries, way), from support (way, shot, r, d) and query (queries, r, d)."""
        pool = support.flatten(1, 2)  # way, p, d
        return class_error(query, pool, lam=self.lam(*pool.shape[1:]), rho=self.rho())

    def lam(self, p: int, d: int) -> Tensor:
        """Return lambda of Eq. 7 for p pool rows and d channels, in float64."""
        return rescaled_lambda(self.alpha.double().exp(), p, d)

    def rho(self) -> Tensor:
        """Return rho of Eq. 7, in float64."""
        return self.beta.double().exp()

    def set_parameters(self, learned: HeadParameters) -> None:
        """Set alpha, beta and gamma to the values of `learned`."""
        for name, value in asdict(learned).items():
            self.get_parameter(name).data.fill_(value)

    def start_on(self, episodes: Sequence[Tensor], shot: int) -> None:
        """Choose alpha and gamma, which would need most of a run at the small learning rates after pre-training."""
        trials = [TuningEpisode.split(maps.cpu().numpy(), shot) for maps in episodes]
        self.set_parameters(tune(trials, FLAT, 1))

    def divergence_reason(self) -> str:
        """Return the reason why training cannot recover, or an empty string."""
        if self.gamma <= 0:
            return f"gamma is {self.gamma.item():.2f}: the class with the worst reconstruction is predicted"
        # Minimum useful rho: below it, reconstructions are too short to distinguish classes; healthy runs stay above
        # 0.15
        if self.rho() < 0.01:
            return f"rho is {self.rho().item():.0e}: no class reconstructs anything"
        return ""
