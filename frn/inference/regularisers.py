"""Lambda, rho and gamma for a head that nobody trained, by leaving each support out once.

For a given lambda the error of a query is a parabola in rho: energy - 2 rho along + rho^2 kept. So a class is solved
once for each alpha, and every beta and gamma costs nothing more. What is best makes the left-out supports' own classes
likeliest (Eq. 9), with a little doubt left, as Platt's scaling has it: otherwise gamma would grow without end where all
classes are told apart.

Shape letters: way classes, k supports of a class, r locations, d channels, q queries, p = k r pool rows, m = min(p, d).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frn.inference.enrolment import Array, HeadParameters, left_out_parts

START = HeadParameters(0.0, 0.0, 1.0)
"""What FRN training starts from."""
COARSE = (-6.0, -4.0, -2.0, 0.0, 2.0, 4.0)
"""Alphas tried first; then those between the best and its neighbours."""
BETAS = np.linspace(-0.6, 0.6, 13)
"""Rho from 0.55 to 1.82: below two, a class only ever takes off error."""
GAMMAS = (-2.0, 12.0)
"""Gamma times the mean energy, as powers of two: from no opinion to certainty."""
STEPS = 30
MAX_QUERIES = 400
"""Left-out supports that are asked; of more, an even selection."""

Maps = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Parabolas:
    """Errors of queries (q, way) for one alpha, as functions of rho."""

    along: Array
    kept: Array


@dataclass(frozen=True, slots=True)
class Trial:
    """Queries whose class is known, and the pools that may claim them."""

    pools: Sequence[Maps]
    """(k, r, d) for each class."""
    queries: Sequence[tuple[int, Maps]]
    """Class and maps (n, r, d); without any, supports are left out instead."""


def by_leave_one_out(pools: Sequence[Maps]) -> HeadParameters:
    """Choose alpha, beta and gamma for classes of these supports, (k, r, d) each.

    Where there are fewer than two classes, or none has two supports, nothing can be compared: then it is `START`.
    Lambda is that of one support less for the class that lacks one, as in `enrolment.leave_one_out`.
    """
    if len(pools) < 2 or all(len(pool) < 2 for pool in pools):
        return START
    return choose([Trial(pools, ())])


def choose(trials: Sequence[Trial]) -> HeadParameters:
    """The parameters that make the right classes of all trials likeliest; each trial has the same number of classes."""
    solvers = [_Solver(trial) for trial in trials]
    energy = np.concatenate([solver.energy for solver in solvers])
    labels = np.concatenate([solver.labels for solver in solvers])
    found: dict[float, tuple[float, HeadParameters]] = {}

    def attempt(alpha: float) -> float:
        if alpha not in found:
            pieces = [solver.parabolas(alpha) for solver in solvers]
            along, kept = (np.concatenate([getattr(piece, part) for piece in pieces]) for part in ("along", "kept"))
            found[alpha] = min(
                (_best_gamma(energy, along, kept, labels, alpha, float(beta)) for beta in BETAS), key=lambda f: f[0]
            )
        return found[alpha][0]

    best = min(COARSE, key=attempt)
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
    doubt = 1 / (len(labels) + 2)
    target = np.full(errors.shape, doubt / (errors.shape[1] - 1))
    target[np.arange(len(labels)), labels] = 1 - doubt

    def loss(power: float) -> float:
        logits = -(2.0**power / unit) * errors
        logits -= logits.max(axis=1, keepdims=True)
        return float((np.log(np.exp(logits).sum(axis=1)) - (target * logits).sum(axis=1)).mean())

    low, high = GAMMAS
    share = (math.sqrt(5) - 1) / 2
    a, b = high - share * (high - low), low + share * (high - low)
    at_a, at_b = loss(a), loss(b)
    for _ in range(STEPS):
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

    def __init__(self, trial: Trial) -> None:
        self.pools = [np.asarray(pool, dtype=np.float64) for pool in trial.pools]
        self.leaves_out = not trial.queries
        asked = trial.queries or [(i, pool) for i, pool in enumerate(self.pools) if len(pool) > 1]
        total = sum(len(maps) for _, maps in asked)
        self.every = max(1, -(-total // MAX_QUERIES)) if self.leaves_out else 1
        queries = np.concatenate([np.asarray(maps, dtype=np.float64)[:: self.every] for _, maps in asked])
        self.groups = [(label, len(maps[:: self.every])) for label, maps in asked]
        self.labels = np.repeat([label for label, _ in self.groups], [count for _, count in self.groups])
        self.energy: Array = np.square(queries).sum(-1).mean(-1)
        self.classes = [_directions(pool.reshape(-1, pool.shape[-1]), queries) for pool in self.pools]

    def parabolas(self, alpha: float) -> Parabolas:
        """For one alpha."""
        head = HeadParameters(alpha, 0.0, 1.0)
        along, kept = np.empty((2, len(self.labels), len(self.pools)))
        for column, (pool, (squares, products)) in enumerate(zip(self.pools, self.classes, strict=True)):
            k, r, d = pool.shape
            share = squares / (squares + head.lam(k * r, d))
            along[:, column], kept[:, column] = products @ share, products @ share**2
        if self.leaves_out:
            first = 0
            for label, count in self.groups:
                k, r, d = self.pools[label].shape
                _, own_along, own_kept = left_out_parts(self.pools[label], head.lam((k - 1) * r, d))
                along[first : first + count, label] = own_along.mean(1)[:: self.every]
                kept[first : first + count, label] = own_kept.mean(1)[:: self.every]
                first += count
        return Parabolas(along, kept)


def _directions(pool: Array, queries: Array) -> tuple[Array, Array]:
    """Squared singular values (m,) of a pool (p, d), and mean squared products (q, m) of queries (q, r, d)."""
    if len(pool) > pool.shape[1]:
        squares, v = np.linalg.eigh(pool.T @ pool)
        seen = queries @ v
    else:
        squares, u = np.linalg.eigh(pool @ pool.T)
        length = np.sqrt(squares.clip(0))
        kept = length > length.max(initial=0.0) * 1e-7
        squares, seen = squares[kept], (queries @ (pool.T @ u[:, kept])) / length[kept]
    return squares.clip(0), np.square(seen).mean(axis=1)
