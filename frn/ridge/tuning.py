"""Choose alpha and gamma for the given classes, without torch.

Training fixes a single alpha for one episode shape, and lambda = p / d exp(alpha) then grows in proportion to the
shots, although the best lambda grows only with about their square root. So both parameters are chosen again on
enrolment: each support is scored by leave-one-out against its own class and the others, and the likelihood of the
correct classes is maximised (Eq. 9). The prior is the model's lambda for one photo and its gamma, both times the square
root of the shots (with rho > 1, lambda grows faster: see `Prior.head`). The prior counts as much as a few photos, so
that one-shot classes keep the trained values and a hundred photos outweigh it.

Beta is not tuned: choosing it as well gained nothing on validation classes (docs/lab/recipes.md).

With one photo of each class, leave-one-out is not possible. Photos of textures and surfaces then get too large a gamma:
their locations are alike, so their errors are not independent evidence. In medical and other far photos, the classes
are alike. Gamma is therefore lowered for photos with less variety than those that the model was taught on, within a
photo or between them, if both are known for the model.

The examples are either each class's own supports (leave-one-out) or the queries of a few episodes of other classes
(`frn eval` of an untrained head, and the start of training). In the eigenbasis of a class, lambda is added to each
direction separately, so a class is decomposed once, and each further alpha or gamma costs almost nothing.

Shape letters: way classes, k supports of a class, r locations, d channels, q queries, p = k r pool rows, m = min(p, d).
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from frn.episodes import EpisodeShape, evaluation_episode
from frn.ridge.enrolment import NO_ALLOWANCE, Allowance, AnyMaps, Array, Floats, allowed, energy, error_from_blocks
from frn.ridge.parameters import USUAL_SHOTS, HeadParameters, temperature
from frn.ridge.unequal import allowances, by_content, without_one

STEP, FARTHEST, PRECISION = 2.0, 8.0, 0.02
"""First step, largest distance and precision of the search for alpha, in spreads of the prior."""
NARROW = 1.0  # width in which the loss is close to a parabola; in a wider one, the search tries another point
GAMMAS = 8.0  # maximum distance of log gamma from the prior's mean, in multiples of its spread
GOLDEN_SECTION = (math.sqrt(5) - 1) / 2
GOLDEN_SECTION_STEPS = 40
"""Precision of 7e-8 in log gamma, the best that a rounded loss allows. Errors of the same photo in other batches differ
by 1e-7; after fewer steps, this can move gamma farther."""
TUNING_EPISODES = 10  # number of episodes of other classes used in the search
LESS_VARIETY, MORE_LIKENESS = 0.6, 0.45
"""Powers of variety and likeness with which gamma falls. With `frn-photo` and one photo of 5 classes, the calibration
error changes from 13.1 to 10.1 on twelve far kinds and from 5.8 to 5.9 on nine near ones (docs/lab/recipes.md)."""
FEW = 10  # largest number of shots for which the other classes also omit a support, so that all classes have k - 1
MAX_CLASSES = 64
MAX_QUERIES = 400

Scored = tuple[float, HeadParameters]  # a loss, and the parameters that have it


@dataclass(frozen=True, slots=True)
class Prior:
    """Prior of the parameters, before leave-one-out; normal in alpha and in log gamma."""

    alpha: float  # alpha for classes with one photo
    beta: float
    gamma: float  # gamma for classes with `USUAL_SHOTS` photos
    alpha_spread: float = 0.5
    gamma_spread: float = 0.25
    variety: float = 0.0  # `variety` of usual photos; 0 if it was not measured
    likeness: float = math.inf  # the largest `likeness` of usual ones

    @classmethod
    def trained(cls, head: HeadParameters) -> "Prior":
        return cls(head.alpha, head.beta, head.gamma)

    def head(self, shots: float) -> HeadParameters:
        """Return the most likely parameters for classes with this many photos.

        Lambda grows with the shots to the power of rho / 2, at least 1/2 and at most 1. With rho > 1, a smaller lambda
        would make the reconstructions too long in the directions in which the photos have much energy.
        """
        power = min(1.0, max(0.5, math.exp(self.beta) / 2))
        return HeadParameters(self.alpha - (1 - power) * math.log(shots), self.beta, temperature(self.gamma, shots))

    def surprise(self, head: HeadParameters, shots: float) -> float:
        """Return the negative log-density of parameters for this many photos, up to a constant."""
        mean = self.head(shots)
        alpha = (head.alpha - mean.alpha) / self.alpha_spread
        gamma = math.log(head.gamma / mean.gamma) / self.gamma_spread
        return (alpha**2 + gamma**2) / 2


UNTRAINED = Prior(4.0, 0.0, 40 * math.sqrt(USUAL_SHOTS), alpha_spread=1.0, gamma_spread=0.7)
"""Prior of pretrained backbones, whose maps have a mean energy of one: typical values, not trained ones."""
FLAT = Prior(0.0, 0.0, 1.0, alpha_spread=2.5, gamma_spread=2.5)
"""Uninformative prior: hundreds of queries from other classes decide."""


@dataclass(frozen=True, slots=True)
class TuningEpisode:
    """Queries with known classes, and the pools of all classes."""

    pools: Sequence[AnyMaps]  # maps (k, r, d) of each class
    queries: Sequence[tuple[int, AnyMaps]] = ()
    """Class and maps (n, r, d) of the queries; if empty, supports are used by leave-one-out."""

    @classmethod
    def split(cls, episode: AnyMaps, shot: int) -> "TuningEpisode":
        """Split an episode's maps (way, shot + queries, r, d) into pools and queries."""
        return cls(list(episode[:, :shot]), list(enumerate(episode[:, shot:])))


def tune_by_leave_one_out(pools: Sequence[AnyMaps], prior: Prior) -> HeadParameters:
    """Choose alpha and gamma for classes with these supports, (k, r, d) each."""
    return tune_classes(pools, prior)[0]


def tune_classes(pools: Sequence[AnyMaps], prior: Prior) -> tuple[HeadParameters, list[Allowance]]:
    """Choose alpha and gamma for classes with these supports, (k, r, d) each, and return them with the allowances.

    Leave-one-out needs two classes, one of them with two photos; otherwise the prior decides.
    """
    typical = statistics.median([len(pool) for pool in pools] or [1])
    left_out = [len(pool) - 1 for pool in pools if len(pool) > 1]
    if len(pools) < 2 or not left_out:
        head = prior.head(typical)
        if prior.variety and len(pools) > 1 and not left_out:
            less_varied, less_apart = variety(pools) / prior.variety, prior.likeness / max(likeness(pools), 1e-6)
            less = min(1.0, less_varied**LESS_VARIETY, less_apart**MORE_LIKENESS)
            head = replace(head, gamma=head.gamma * less)
        return head, [NO_ALLOWANCE] * len(pools)
    others = statistics.median(left_out)
    stride = -(-len(pools) // MAX_CLASSES)
    first = next(place for place, pool in enumerate(pools) if len(pool) > 1)
    selected = slice(first % stride, None, stride)
    solver = _Solver(TuningEpisode(pools[selected]))
    best = _tuned([solver], prior, others)
    # The prior's dependence on shots also applies to the result.
    more, fewer = prior.head(typical), prior.head(others)
    alpha = best.alpha + more.alpha - fewer.alpha
    chosen = allowances(pools, replace(best, alpha=alpha))
    if any(each.share for each in chosen[selected]):  # gamma is that of the errors with which photos are classified
        least, errors = min(map(len, pools)), solver.errors(best)
        reduced = [without_one(each, len(pool), least) for each, pool in zip(chosen, pools, strict=True)]
        shares, own = (np.array([each.share for each in some[selected]]) for some in (chosen, reduced))
        shares = np.repeat(shares[None], len(errors), axis=0)
        shares[np.arange(len(errors)), solver.labels] = own[solver.labels]
        errors = errors + allowed(errors, solver.energy[:, None], shares, chosen[0].usual)
        best = _best_gamma(errors, solver.labels, best, prior, others)[1]
    return replace(best, alpha=alpha, gamma=best.gamma * more.gamma / fewer.gamma), chosen


def variety(pools: Sequence[AnyMaps]) -> float:
    """Return how much of the energy of maps (k, r, d) is differences between their locations, as a geometric mean."""
    shares = [maps.var(1, dtype=np.float64).sum(-1) / energy(maps).clip(np.finfo(np.float64).tiny) for maps in pools]
    return float(np.exp(np.log(np.concatenate(shares).clip(1e-6)).mean()))


def likeness(pools: Sequence[AnyMaps]) -> float:
    """Return the mean product of the mean locations of two of these photos (k, r, d), as a share of their energy."""
    lengths = [np.sqrt(energy(maps).clip(np.finfo(np.float64).tiny))[:, None] for maps in pools]
    means = np.concatenate(
        [maps.mean(1, dtype=np.float64) / length for maps, length in zip(pools, lengths, strict=True)]
    )
    total, pairs = means.sum(0), len(means) * (len(means) - 1)
    return float((total @ total - np.square(means).sum()) / pairs)


def with_gamma(
    head: HeadParameters, errors: Array, labels: NDArray[np.intp], counts: Sequence[int], prior: Prior
) -> HeadParameters:
    """Choose gamma again for other errors (q, way) of examples, each by leave-one-out, and their classes (q,).

    `counts` are the numbers of photos of the classes.
    """
    others, typical = statistics.median([k - 1 for k in counts if k > 1]), statistics.median(counts)
    gamma = _best_gamma(errors, labels, head, prior, others)[1].gamma
    return replace(head, gamma=gamma * prior.head(typical).gamma / prior.head(others).gamma)


def tune_on_episodes(maps: AnyMaps, sizes: Sequence[int], shape: EpisodeShape, *, seed: int) -> HeadParameters:
    """Choose parameters for an episode shape, on episodes drawn from validation feature maps (n, r, d).

    One shot is enough, and no test label is used.
    """
    drawn = [evaluation_episode(sizes, shape, seed=seed, index=index) for index in range(TUNING_EPISODES)]
    return tune([TuningEpisode.split(maps[episode], shape.shot) for episode in drawn], FLAT, 1)


def tune(episodes: Sequence[TuningEpisode], prior: Prior, shots: float) -> HeadParameters:
    """Return the most likely parameters, given the queries and the prior for this number of shots.

    All episodes have the same number of classes.
    """
    return _tuned([_Solver(episode) for episode in episodes], prior, shots)


def _tuned(solvers: "Sequence[_Solver]", prior: Prior, shots: float) -> HeadParameters:
    labels = np.concatenate([solver.labels for solver in solvers])
    mean = prior.head(shots)

    def at(x: float) -> Scored:
        head = replace(mean, alpha=mean.alpha + x * prior.alpha_spread)
        errors = np.concatenate([solver.errors(head) for solver in solvers])
        return _best_gamma(errors, labels, head, prior, shots)

    return _by_parabolas(at)[1]


def _best_gamma(errors: Array, labels: NDArray[np.int64], head: HeadParameters, prior: Prior, shots: float) -> Scored:
    """Return the loss with the best gamma, and the head with it, from errors (q, way) of queries and their classes."""
    mean = prior.head(shots).gamma

    def tried(y: float) -> HeadParameters:
        return replace(head, gamma=mean * math.exp(y * prior.gamma_spread))

    def loss(y: float) -> float:
        return prior.surprise(tried(y), shots) - _log_likelihood(errors, labels, tried(y).gamma)

    least, y = _by_golden_section(loss, -GAMMAS, GAMMAS)
    return least, tried(y)


def _log_likelihood(errors: Array, labels: NDArray[np.int64], gamma: float) -> float:
    """Return the log-likelihood of the correct classes (Eq. 9), from errors (q, way)."""
    logits = -gamma * errors
    logits -= logits.max(axis=1, keepdims=True)
    right = logits[np.arange(len(labels)), labels]
    return float((right - np.log(np.exp(logits).sum(axis=1))).sum())


def _by_golden_section(loss: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return the minimum of a unimodal function and its position."""
    a, b = high - GOLDEN_SECTION * (high - low), low + GOLDEN_SECTION * (high - low)
    at_a, at_b = loss(a), loss(b)
    for _ in range(GOLDEN_SECTION_STEPS):
        if at_a <= at_b:
            high, b, at_b = b, a, at_a
            a = high - GOLDEN_SECTION * (high - low)
            at_a = loss(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + GOLDEN_SECTION * (high - low)
            at_b = loss(b)
    return min((at_a, a), (at_b, b))


def _by_parabolas(loss: Callable[[float], Scored]) -> Scored:
    """Return the minimum of a smooth unimodal function, and what comes with it, from few values.

    The search steps from 0 until the function rises again. It then tries the lowest point of the parabola through the
    best three points or, if that gains little, divides the larger side by golden section (Brent, Algorithms for
    Minimization without Derivatives, 1973, chapter 5).
    """
    known = {x: loss(x) for x in (-STEP, 0.0, STEP)}

    def best() -> float:
        return min(known, key=lambda x: known[x][0])

    while (b := best()) in (min(known), max(known)) and abs(b) < FARTHEST:
        farther = b + math.copysign(STEP, b)
        known[farther] = loss(farther)
    widths = [math.inf, math.inf]
    while (b := best()) not in (min(known), max(known)):
        places = sorted(known)
        a, c = places[places.index(b) - 1], places[places.index(b) + 1]
        before, after = ((b - x) * (known[b][0] - known[y][0]) for x, y in ((a, c), (c, a)))
        x = b - ((b - a) * before - (b - c) * after) / (2 * (before - after)) if before != after else b
        is_near = abs(x - b) < PRECISION
        if c - a < (NARROW if is_near else PRECISION):
            break
        widths.append(c - a)
        if is_near or widths[-1] > widths[-3] / 2:
            x = b + (1 - GOLDEN_SECTION) * max(a - b, c - b, key=abs)
        known[x] = loss(x)
    return known[best()]


class _Solver:
    """Parts that do not depend on lambda: the classes' eigenvectors and the queries' squared products with them."""

    def __init__(self, episode: TuningEpisode) -> None:
        pools = [np.asarray(pool, dtype=np.float64)[by_content(pool)] for pool in episode.pools]
        labelled = episode.queries or [(i, pool) for i, pool in enumerate(pools) if len(pool) > 1]
        stride = 1 if episode.queries else _stride(sum(len(maps) for _, maps in labelled), pools)
        queries = np.concatenate([np.asarray(maps, dtype=np.float64)[::stride] for _, maps in labelled])
        self.labels = np.repeat([label for label, _ in labelled], [len(maps[::stride]) for _, maps in labelled])
        self.energy: Array = np.square(queries).sum(-1).mean(-1)
        locations = queries.astype(np.float32)
        self.own: dict[int, _LeftOut] = {}
        self.rivals: list[_Rival] = []
        for column, pool in enumerate(pools):
            spectrum = _Spectrum(pool)
            lacks_one = not episode.queries and 1 < len(pool) <= FEW
            fewer = _Spectrum(np.delete(pool, len(pool) // 2, axis=0)) if lacks_one else spectrum  # without a usual one
            self.rivals.append(_Rival(fewer, locations))
            if not episode.queries and len(pool) > 1:
                self.own[column] = _LeftOut(spectrum, slice(None, None, stride))

    def errors(self, head: HeadParameters) -> Array:
        """Return the class errors (q, way)."""
        errors = np.stack([self.energy - rival.explained(head) for rival in self.rivals], axis=1)
        for column, left_out in self.own.items():
            errors[self.labels == column, column] = left_out.errors(head)
        return errors


class _Spectrum:
    """A pool in its eigenbasis, where lambda is added to each direction separately."""

    def __init__(self, pool: Array) -> None:
        """Decompose a pool (k, r, d)."""
        self.pool = pool
        self.rows = pool.reshape(-1, pool.shape[-1])
        self.low_rank = len(self.rows) <= pool.shape[-1]
        squares, self.vectors = np.linalg.eigh(self.rows @ self.rows.T if self.low_rank else self.rows.T @ self.rows)
        """Left singular vectors (p, m) if there are few rows, otherwise right ones (d, m)."""
        self.squares: Array = squares.clip(0)  # squared singular values, (m,)

    def right(self) -> Array:
        """Return the right singular vectors (d, m), zero for directions missing from the pool."""
        if not self.low_rank:
            return self.vectors
        length = np.sqrt(self.squares)
        there = length > length.max(initial=0.0) * 1e-7
        return self.rows.T @ (self.vectors * np.divide(1, length, out=np.zeros_like(length), where=there))


class _Rival:
    """One class, and its products with all queries."""

    def __init__(self, spectrum: _Spectrum, queries: Floats) -> None:
        self.p, self.squares = len(spectrum.rows), spectrum.squares
        count, r, self.d = queries.shape
        seen = (queries.reshape(-1, self.d) @ spectrum.right().astype(np.float32)).reshape(count, r, -1)
        self.seen: Array = np.einsum("qrm,qrm->qm", seen, seen).astype(np.float64) / r
        """Mean squared products of the queries with the right singular vectors, (q, m)."""

    def explained(self, head: HeadParameters) -> Array:
        """Return how much of the queries' energy the class explains, (q,)."""
        kept = head.rho() * self.squares / (self.squares + head.lam(self.p, self.d))
        return self.seen @ (kept * (2 - kept))


class _LeftOut:
    """Supports of a class, each reconstructed from the others."""

    def __init__(self, spectrum: _Spectrum, chosen: slice) -> None:
        self.k, self.r, self.d = spectrum.pool.shape
        self.squares, self.low_rank = spectrum.squares, spectrum.low_rank
        images = spectrum.pool[chosen]
        self.gram: Array = images @ images.mT
        vectors = spectrum.vectors
        self.own: Array = vectors.reshape(self.k, self.r, -1)[chosen] if self.low_rank else images @ vectors
        """Rows of the images in the left singular vectors, or their products with the right ones, (n, r, m)."""

    def errors(self, head: HeadParameters) -> Array:
        """Return the leave-one-out error of each image, (n,); lambda is that of the other supports."""
        lam = head.lam((self.k - 1) * self.r, self.d)
        weighted = self.own / (self.squares + lam)
        blocks, squared = weighted @ self.own.mT, weighted @ weighted.mT
        if not self.low_rank:  # B = (I - S P S^T) / lam with P = (S^T S + lam I)^-1
            blocks = (np.eye(self.r) - blocks) / lam
            squared = (blocks - squared) / lam
        return error_from_blocks(blocks, squared, self.gram, lam, head.rho()).mean(1)


def _stride(count: int, pools: Sequence[Array]) -> int:
    """Return the step at which leave-one-out supports are selected."""
    each = sum(min(k * r, d) * r * d for k, r, d in (pool.shape for pool in pools))
    # Maximum classes, leave-one-out supports and multiplications with class directions; beyond it, a selection is used
    return max(1, -(-count // min(MAX_QUERIES, max(1, 30 * 10**9 // each))))
