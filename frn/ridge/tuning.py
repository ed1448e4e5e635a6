"""Grid search for alpha, beta and gamma of a head that nobody trained.

The examples are either each class's own supports, left out one at a time (`frn classify`), or the queries of a few
episodes of other classes (`frn eval`, and the start of training). In the eigenbasis of a class lambda is added to each
direction alone, and for a given lambda the error of a query is a parabola in rho: energy - 2 rho along + rho^2 kept.
So a class is decomposed once, and one more alpha, beta or gamma costs next to nothing. The best parameters make the
right classes likeliest (Eq. 9) with smoothed labels, as Platt's scaling has it: otherwise gamma would grow without end
where all classes are told apart.

Shape letters: way classes, k supports of a class, r locations, d channels, q queries, p = k r pool rows, m = min(p, d).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frn.episodes import EpisodeShape, evaluation_episode
from frn.ridge.enrolment import Array, Floats
from frn.ridge.leave_one_out import rebuilt_by_others
from frn.ridge.parameters import HeadParameters

ALPHAS = (-6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 8.0)
"""Alphas tried first; then those between the best and its neighbours."""
BETAS = np.linspace(-0.6, 0.6, 13)
"""Rho from 0.55 to 1.82: below two, a class only ever takes off error."""
GAMMAS = (-2.0, 12.0)
"""Gamma times the mean energy, as powers of two: from no opinion to certainty."""
GOLDEN_SECTION_STEPS = 30
TUNING_EPISODES = 10
"""Episodes of other classes that the search looks at."""
MAX_QUERIES = 400
MAX_WORK = 15 * 10**9
"""Supports that are left out, and multiplications with the classes' directions; of more, an even selection."""

Maps = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class TuningEpisode:
    """Queries whose class is known, and the pools of all classes."""

    pools: Sequence[Maps]
    """(k, r, d) for each class."""
    queries: Sequence[tuple[int, Maps]] = ()
    """Class and maps (n, r, d); without any, supports are left out instead."""

    @classmethod
    def split(cls, episode: Maps, shot: int) -> "TuningEpisode":
        """An episode's maps (way, shot + queries, r, d)."""
        return cls(list(episode[:, :shot]), list(enumerate(episode[:, shot:])))


def tune_by_leave_one_out(pools: Sequence[Maps]) -> HeadParameters:
    """The best parameters for classes of these supports, (k, r, d) each.

    Where there are fewer than two classes, or none has two supports, nothing can be compared: then they are the
    initial ones. Lambda is that of one support less for the class that lacks one, as in `leave_one_out`.
    """
    if len(pools) < 2 or all(len(pool) < 2 for pool in pools):
        return HeadParameters()
    return tune([TuningEpisode(pools)])


def tune_on_episodes(maps: Maps, sizes: Sequence[int], shape: EpisodeShape, *, seed: int) -> HeadParameters:
    """The best parameters for episodes of a shape, drawn from validation images by their feature maps (n, r, d).

    One shot is enough, and no test label is used.
    """
    sampled = [evaluation_episode(sizes, shape, seed=seed, index=index) for index in range(TUNING_EPISODES)]
    return tune([TuningEpisode.split(maps[episode], shape.shot) for episode in sampled])


def tune(episodes: Sequence[TuningEpisode]) -> HeadParameters:
    """The parameters that make the right classes likeliest; each episode has the same number of classes."""
    solvers = [_Solver(episode) for episode in episodes]
    energy = np.concatenate([solver.energy for solver in solvers])
    labels = np.concatenate([solver.labels for solver in solvers])
    found: dict[float, tuple[float, HeadParameters]] = {}

    def attempt(alpha: float) -> float:
        if alpha not in found:
            along, kept = map(np.concatenate, zip(*(solver.parabolas(alpha) for solver in solvers), strict=True))
            found[alpha] = min(
                (_best_gamma(energy, along, kept, labels, alpha, float(beta)) for beta in BETAS), key=lambda f: f[0]
            )
        return found[alpha][0]

    best = min(ALPHAS, key=attempt)
    for step in (1.0, 0.5):
        best = min((best - step, best, best + step), key=attempt)
    return found[best][1]


def _best_gamma(
    energy: Array, along: Array, kept: Array, labels: NDArray[np.int64], alpha: float, beta: float
) -> tuple[float, HeadParameters]:
    """The smallest loss over gamma, by golden section: it is convex in gamma."""
    rho = math.exp(beta)
    errors = energy[:, None] - 2 * rho * along + rho**2 * kept
    unit = float(energy.mean()) or 1.0
    smoothing = 1 / (len(labels) + 2)
    target = np.full(errors.shape, smoothing / (errors.shape[1] - 1))
    target[np.arange(len(labels)), labels] = 1 - smoothing

    def loss(power: float) -> float:
        logits = -(2.0**power / unit) * errors
        logits -= logits.max(axis=1, keepdims=True)
        return float((np.log(np.exp(logits).sum(axis=1)) - (target * logits).sum(axis=1)).mean())

    low, high = GAMMAS
    share = (math.sqrt(5) - 1) / 2
    a, b = high - share * (high - low), low + share * (high - low)
    at_a, at_b = loss(a), loss(b)
    for _ in range(GOLDEN_SECTION_STEPS):
        if at_a <= at_b:
            high, b, at_b = b, a, at_a
            a = high - share * (high - low)
            at_a = loss(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + share * (high - low)
            at_b = loss(b)
    return min(at_a, at_b), HeadParameters(alpha, beta, 2.0 ** (a if at_a <= at_b else b) / unit)


class _Solver:
    """What does not change with lambda: the classes' eigenvectors, and the queries' squared products with them."""

    def __init__(self, episode: TuningEpisode) -> None:
        pools = [np.asarray(pool, dtype=np.float64) for pool in episode.pools]
        labelled = episode.queries or [(i, pool) for i, pool in enumerate(pools) if len(pool) > 1]
        stride = 1 if episode.queries else _stride(sum(len(maps) for _, maps in labelled), pools)
        queries = np.concatenate([np.asarray(maps, dtype=np.float64)[::stride] for _, maps in labelled])
        self.labels = np.repeat([label for label, _ in labelled], [len(maps[::stride]) for _, maps in labelled])
        self.energy: Array = np.square(queries).sum(-1).mean(-1)
        held_out = slice(0) if episode.queries else slice(None, None, stride)
        self.classes = [_Class(pool, queries.astype(np.float32), held_out) for pool in pools]

    def parabolas(self, alpha: float) -> tuple[Array, Array]:
        """Errors for one alpha as functions of rho: the terms `along` and `kept`, (q, way) each."""
        head = HeadParameters(alpha, 0.0, 1.0)
        along, kept = np.empty((2, len(self.labels), len(self.classes)))
        for column, class_ in enumerate(self.classes):
            k, r, d = class_.shape
            along[:, column], kept[:, column] = class_.rebuild(head.lam(k * r, d))
            if len(class_.images) and k > 1:
                own = self.labels == column
                along[own, column], kept[own, column] = class_.rebuild_left_out(head.lam((k - 1) * r, d))
        return along, kept


class _Class:
    """A class in the eigenbasis of its pool, where lambda is added to each direction alone."""

    def __init__(self, pool: Array, queries: Floats, held_out: slice) -> None:
        """From its pool (k, r, d), the queries (q, r, d) and which of its supports are left out."""
        self.shape = k, r, d = pool.shape
        rows = pool.reshape(-1, d)
        self.images = pool[held_out]
        self.low_rank = len(rows) <= d
        squares, vectors = np.linalg.eigh(rows @ rows.T if self.low_rank else rows.T @ rows)
        self.squares: Array = squares.clip(0)
        """Squared singular values, (m,)."""
        self.own: Array = vectors.reshape(k, r, -1)[held_out] if self.low_rank else self.images @ vectors
        """The left-out images' rows of the left singular vectors, or their products with the right ones, (n, r, m)."""
        if self.low_rank:
            length = np.sqrt(self.squares)
            there = length > length.max(initial=0.0) * 1e-7
            inverse = np.divide(1, length, out=np.zeros_like(length), where=there)
            vectors = rows.T @ (vectors * inverse)
        seen = queries @ vectors.astype(np.float32)
        self.seen: Array = np.einsum("qrm,qrm->qm", seen, seen).astype(np.float64) / r
        """Mean squared products of the queries with the right singular vectors, (q, m)."""

    def rebuild(self, lam: float) -> tuple[Array, Array]:
        """q.q' and |q'|^2 of the queries at rho = 1, means over their locations; (q,) each."""
        share = self.squares / (self.squares + lam)
        return self.seen @ share, self.seen @ share**2

    def rebuild_left_out(self, lam: float) -> tuple[Array, Array]:
        """The same of the left-out images, rebuilt by the rest of the class; (n,) each."""
        weight = 1 / (self.squares + lam)
        own, squared = ((self.own * weight**power) @ self.own.mT for power in (1, 2))
        if not self.low_rank:  # B = (I - S P S^T) / lam with P = (S^T S + lam I)^-1
            own = (np.eye(self.shape[1]) - own) / lam
            squared = (own - squared) / lam
        _, along, kept = rebuilt_by_others(own, squared, self.images @ self.images.mT, lam)
        return along.mean(1), kept.mean(1)


def _stride(count: int, pools: Sequence[Array]) -> int:
    """The stride of the selection of supports that are left out."""
    each = sum(min(k * r, d) * r * d for k, r, d in (pool.shape for pool in pools))
    return max(1, -(-count // min(MAX_QUERIES, max(1, MAX_WORK // each))))
