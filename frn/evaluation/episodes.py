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
from frn.evaluation.accuracy import Accuracy, summarise
from frn.heads.frn import FRNHead
from frn.heads.head import Head
from frn.ridge.reconstruction import residual_operator, second_moment

Observer = Callable[[int, NDArray[np.int64], NDArray[np.float32]], None]
"""Receives the index of a chunk's first episode, its image indices (e, way, shot + queries) and logits (e, q, way)."""
Scorer = Callable[[Tensor], Tensor]
"""Function from image indices (e, way, shot + queries) of a chunk of episodes to logits (e, q, way)."""

CHUNK = 8
"""Episodes scored at a time, few enough that temporaries fit in the processor's cache."""
MOMENT_CHANNELS = 128
"""Maximum number of channels for which cached second moments (d x d per image) replace the query maps."""


def evaluate_episodes(
    head: Head,
    feature_maps: Tensor,
    sizes: Sequence[int],
    shape: EpisodeShape,
    *,
    episodes: int,
    seed: int,
    progress: Progress | None = None,
    observe: Observer | None = None,
) -> Accuracy:
    """Measure a head's accuracy over random episodes of feature maps (n, r, d) sorted by class."""
    return summarise(
        episode_accuracies(
            head, feature_maps, sizes, shape, episodes=range(episodes), seed=seed, progress=progress, observe=observe
        )
    )


def episode_accuracies(
    head: Head,
    feature_maps: Tensor,
    sizes: Sequence[int],
    shape: EpisodeShape,
    *,
    episodes: range,
    seed: int,
    progress: Progress | None = None,
    observe: Observer | None = None,
) -> NDArray[np.float64]:
    """Return the fraction of correct answers in each episode with these numbers; see `evaluate_episodes`."""
    with torch.inference_mode():
        score = episode_scorer(head, feature_maps, shape)
    target = torch.arange(shape.way, device=feature_maps.device).repeat_interleave(shape.queries)

    @torch.inference_mode()
    def evaluate(start: int) -> NDArray[np.float64]:
        chunk = range(start, min(start + CHUNK, episodes.stop))
        sampled = np.stack([evaluation_episode(sizes, shape, seed=seed, index=index) for index in chunk])
        logits = score(torch.from_numpy(sampled).to(feature_maps.device))
        if observe:
            observe(start, sampled, logits.float().cpu().numpy())
        return (logits.argmax(-1) == target).double().mean(-1).cpu().numpy()

    first, correct, starts = episodes.start, np.empty(len(episodes)), range(episodes.start, episodes.stop, CHUNK)
    threads = torch.get_num_threads()
    # The systems are small: sharing one among threads costs more than solving it, so each thread scores its own
    # episodes.
    torch.set_num_threads(1)
    at_once = threads if feature_maps.is_cpu else 1
    workers = ThreadPoolExecutor(at_once, initializer=torch.set_num_threads, initargs=(1,))
    try:
        for start, part in zip(starts, workers.map(evaluate, starts), strict=True):
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
    if isinstance(head, FRNHead) and feature_maps.shape[-1] <= MOMENT_CHANNELS:
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
