"""Scoring of thousands of episodes from cached feature maps.

Shape letters: e episodes in a chunk, way, r, d; q = way * queries query images of an episode.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frn.data.pixel_cache import Progress
from frn.episodes import EpisodeShape, evaluation_episode
from frn.heads.frn import FRNHead
from frn.heads.head import Head
from frn.ridge.enrolment import Array, ClassScorer, enroll
from frn.ridge.reconstruction import residual_operator, second_moment
from frn.ridge.tuning import Prior, tune_by_leave_one_out
from frn.ridge.unlabelled.transductive import refine

Scorer = Callable[[Tensor], Tensor]
"""Function from image indices (e, way, shot + queries) of a chunk of episodes to logits (e, q, way)."""

CHUNK = 8  # episodes scored at a time, few enough that temporaries fit in the processor's cache


def episode_accuracies(
    head: Head,
    feature_maps: Tensor,
    sizes: Sequence[int],
    shape: EpisodeShape,
    *,
    episodes: range,
    seed: int,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Return a head's accuracy in each of these episodes from feature maps (n, r, d) of images sorted by class."""
    with torch.inference_mode():
        score = episode_scorer(head, feature_maps, shape)
    target = torch.arange(shape.way, device=feature_maps.device).repeat_interleave(shape.queries)

    @torch.inference_mode()
    def accuracies_from(start: int) -> NDArray[np.float64]:
        chunk = range(start, min(start + CHUNK, episodes.stop))
        sampled = np.stack([evaluation_episode(sizes, shape, seed=seed, index=index) for index in chunk])
        logits = score(torch.from_numpy(sampled).to(feature_maps.device))
        return (logits.argmax(-1) == target).double().mean(-1).cpu().numpy()

    first, correct, starts = episodes.start, np.empty(len(episodes)), range(episodes.start, episodes.stop, CHUNK)
    threads = torch.get_num_threads()
    # The systems are small: sharing one among threads costs more than solving it, so each thread scores its own
    # episodes.
    torch.set_num_threads(1)
    at_once = threads if feature_maps.is_cpu else 1
    workers = ThreadPoolExecutor(at_once, initializer=torch.set_num_threads, initargs=(1,))
    try:
        for start, part in zip(starts, workers.map(accuracies_from, starts), strict=True):
            done = start - first
            correct[done : done + CHUNK] = part
            if progress and done // CHUNK % 16 == 0:
                progress(done + len(part), len(episodes))
    finally:
        workers.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)
    return correct


def episode_scorer(head: Head, feature_maps: Tensor, shape: EpisodeShape) -> Scorer:
    """Return the fastest scorer for episodes of `shape` from cached maps; its logits are the head's."""
    # Maximum number of channels for which cached second moments (d x d per image) replace the query maps
    if isinstance(head, FRNHead) and feature_maps.shape[-1] <= 128:
        return _moment_scorer(head, feature_maps, shape)

    def score(episodes: Tensor) -> Tensor:
        logits = []
        for episode in episodes:
            query = feature_maps[episode[:, shape.shot :].flatten()]
            logits.append(head(feature_maps[episode[:, : shape.shot]], query))
        return torch.stack(logits)

    return score


def _moment_scorer(head: FRNHead, feature_maps: Tensor, shape: EpisodeShape) -> Scorer:
    """Score FRN by second moments: a query costs d x d per class for any r; each image's moment is computed once."""
    r, d = feature_maps.shape[1:]
    p = shape.shot * r
    moments = torch.cat([second_moment(piece) for piece in feature_maps.split(1024)]).flatten(1)  # n, d * d
    lam, rho, gamma = head.lam(p, d), head.rho(), head.gamma

    def score(episodes: Tensor) -> Tensor:
        pool = feature_maps[episodes[..., : shape.shot]].flatten(2, 3).double()  # e, way, p, d
        residual = residual_operator(pool.mT @ pool, lam, rho)
        squared = (residual @ residual).flatten(2).to(moments.dtype)  # e, way, d * d
        query = moments[episodes[..., shape.shot :].flatten(1)]  # e, q, d * d
        return -gamma * (squared @ query.mT).mT

    return score


def enrolled_accuracies(
    prior: Prior,
    feature_maps: NDArray[np.float32],
    sizes: Sequence[int],
    shape: EpisodeShape,
    *,
    episodes: range,
    seed: int,
    transductive: bool = False,
    progress: Progress | None = None,
) -> Array:
    """Return the fraction of correct answers in each episode, (e, 1), from the maps (n, r, d) of all images by class.

    Each episode is enrolled as in `frn classify` and chooses its own alpha and gamma.

    `transductive` adds three columns, (e, 4): with classes refined by the same queries; for as many queries with
    unequal class sizes; and for these again, with classes refined by them.
    """
    shares = np.empty((len(episodes), 4 if transductive else 1))
    for place, index in enumerate(episodes):
        drawn = evaluation_episode(sizes, shape, seed=seed, index=index)
        pools = list(feature_maps[drawn[:, : shape.shot]])
        head = tune_by_leave_one_out(pools, prior)
        scorer = ClassScorer([enroll(pool, head) for pool in pools])
        drawings = [list(drawn[:, shape.shot :])]
        if transductive:
            drawings.append(unequal_queries(drawn, sizes, shape, np.random.default_rng([seed, index])))
        for column, images in enumerate(drawings):
            labels = np.repeat(np.arange(shape.way), [len(of_class) for of_class in images])
            queries = feature_maps[np.concatenate(images)]
            errors = scorer.class_error(queries).astype(np.float64)
            shares[place, 2 * column] = (errors.argmin(1) == labels).mean()
            if transductive:
                refined, _ = refine(errors, pools, queries, head)
                shares[place, 2 * column + 1] = (refined.argmin(1) == labels).mean()
        if progress:
            progress(place + 1, len(episodes))
    return shares


def unequal_queries(
    drawn: NDArray[np.int64], sizes: Sequence[int], shape: EpisodeShape, generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Draw as many queries, with class shares from a Dirichlet distribution; fewer if there are not enough images."""
    # Parameter of the Dirichlet distribution of class sizes (Veilleux et al., NeurIPS 2021)
    counts = generator.multinomial(shape.way * shape.queries, generator.dirichlet(np.full(shape.way, 2.0)))
    ends = np.cumsum(sizes)
    owners = np.searchsorted(ends, drawn[:, 0], side="right")
    images = []
    for supports, owner, count in zip(drawn[:, : shape.shot], owners, counts, strict=True):
        remaining = np.setdiff1d(np.arange(ends[owner] - sizes[owner], ends[owner]), supports)
        images.append(generator.permutation(remaining)[:count])
    return images
