"""Groups of unlabelled photos that probably show one class each. The method is `transductive` without examples.

Only one photo from each set of near copies is used. The groups start as Ward's clusters of the pooled maps (Ward, 1963;
by nearest-neighbour chains and the formula of Lance and Williams). Then, for some rounds, each group is the pool of its
photos with their weights, and each photo goes to the groups that reconstruct it best by leave-one-out.

If the number of groups is not given, it is the smallest number of clusters for which photos are reconstructed by the
rest of their cluster about as well as for the best number: too few clusters mix classes, and too many leave little to
reconstruct from.

Shape letters: n photos, r locations, d channels.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.images.near_copies import copy_sets
from frn.ridge.enrolment import Array, Floats, leave_one_out
from frn.ridge.parameters import HeadParameters, probabilities
from frn.ridge.tuning import Prior
from frn.ridge.unlabelled.transductive import NEGLIGIBLE, mixture_errors

MAX_PHOTOS = 5000  # maximum number of photos; their distances take 200 MB
SHIFTS = (-0.8,) * 4 + (-1.8,) * 4  # offsets of alpha from the trained one, round by round
LEAST_SIZE, MOST_GROUPS = 3, 200
"""Limits of the search for the number of groups: photos per group on average, and number of groups."""

Order = NDArray[np.intp]


def group(maps: Floats, looks: Sequence[bytes], prior: Prior, count: int | None = None) -> list[list[list[int]]]:
    """Group photos by maps (n, r, d) and perceptual hashes; return each group's photos, followed by their near copies.

    Photos are numbers from 0 to n - 1. The largest group comes first, and the most central photo of each group. Raises
    FrnError if there are fewer distinct photos than `count`, or too many photos.
    """
    if len(maps) > MAX_PHOTOS:
        raise FrnError(f"{len(maps):,} photos are too many for one grouping; the limit is {MAX_PHOTOS:,}")
    copies = copy_sets(looks)
    if count is not None and not 1 <= count <= len(copies):
        raise FrnError(f"{len(copies)} different photos cannot form {count} groups")
    chosen = maps[[first for first, *_ in copies]]
    merges = ward(chosen.mean(1))
    labels = cut(merges, count or _likeliest_count(chosen, merges, prior))
    way, d = int(labels.max()) + 1, maps.shape[2]
    weights, head = np.eye(way)[labels], prior.head(len(chosen) / way)
    errors = np.zeros(weights.shape)
    for shift in SHIFTS:
        used = replace(head, alpha=prior.alpha + shift)
        errors = mixture_errors(np.zeros((way, d, d)), np.zeros(way, int), chosen, weights, used)
        weights = probabilities(errors, head.gamma)
        weights[weights < NEGLIGIBLE] = 0
    members = [np.flatnonzero(errors.argmin(1) == column) for column in range(way)]
    ordered = [of_group[np.argsort(errors[of_group, column], kind="stable")] for column, of_group in enumerate(members)]
    groups = [[copies[place] for place in of_group] for of_group in ordered if len(of_group)]
    return sorted(groups, key=lambda of_group: -sum(map(len, of_group)))


def ward(points: Array | Floats) -> list[tuple[int, int]]:
    """Return pairs of clusters to merge, nearest first, each given by one of its points (n, d)."""
    points = points / np.linalg.norm(points, axis=1, keepdims=True).clip(1e-12)
    # Half the squared distance is the cost of merging two points; Ward's formula preserves the 1 that is left out.
    distances = -points.astype(np.float64) @ points.T
    np.fill_diagonal(distances, np.inf)
    sizes = np.ones(len(points))
    merges: list[tuple[float, int, int]] = []
    chain: list[int] = []
    while len(merges) < len(points) - 1:
        chain = chain or [int(sizes.argmax())]
        nearest = int(distances[chain[-1]].argmin())
        if len(chain) < 2 or distances[chain[-1], nearest] < distances[chain[-1], chain[-2]]:
            chain.append(nearest)
            continue
        b, a = chain.pop(), chain.pop()
        cost = distances[a, b]
        merges.append((cost, a, b))
        row = ((sizes + sizes[a]) * distances[a] + (sizes + sizes[b]) * distances[b] - sizes * cost) / (
            sizes + sizes[a] + sizes[b]
        )
        row[[a, b]] = np.inf
        distances[a], distances[:, a] = row, row
        distances[b], distances[:, b] = np.inf, np.inf
        sizes[a] += sizes[b]
    return [(a, b) for _, a, b in sorted(merges, key=lambda merge: merge[0])]


def cut(merges: list[tuple[int, int]], count: int) -> Order:
    """Return the cluster of each point (n,), numbered from 0, when `count` clusters are left."""
    root = np.arange(len(merges) + 1)
    for a, b in merges[: len(root) - count]:
        root[root == root[b]] = root[a]
    return np.asarray(np.unique(root, return_inverse=True)[1])


def _likeliest_count(maps: Floats, merges: list[tuple[int, int]], prior: Prior) -> int:
    """Return the number of clusters that fits the photos' leave-one-out errors."""
    left_out: dict[tuple[int, ...], float] = {}

    def error(members: Order) -> float:
        key = tuple(members.tolist())
        if key not in left_out:
            head = HeadParameters(prior.alpha + SHIFTS[-1], prior.beta)
            left_out[key] = float(leave_one_out(maps[members], head).sum())
        return left_out[key]

    def clusters(count: int) -> Iterator[Order]:
        labels = cut(merges, count)
        return (np.flatnonzero(labels == column) for column in range(count))

    most = min(MOST_GROUPS, math.ceil(len(maps) / LEAST_SIZE))
    errors = [sum(map(error, clusters(count))) for count in range(1, most + 1)]
    least = min(errors)
    # Fraction of the best number's gain over one group that a smaller number of groups may lose
    return 1 + next(place for place, at_count in enumerate(errors) if at_count - least <= 0.03 * (errors[0] - least))
