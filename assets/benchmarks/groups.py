"""Measure how well `frn group` groups unlabelled photos, compared with k-means and Ward clusters of pooled features.

    python assets/benchmarks/groups.py DATA... --split val --model resnet9-photo

Each draw takes up to 20 classes of 10 to 40 photos (DATA/val/CLASS/photo). The columns are means over all draws:

    kmeans, ward, groups    adjusted Rand index, with the number of classes given
    found / classes         number of groups chosen from the photos, and number of classes
    rand                    adjusted Rand index of those
    keys                    merges and moves to a right set of classes: each group takes its most common class, each
                            further group of a class is merged, each photo of another class is moved
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.metrics import adjusted_rand_score
from transductive import fewer_channels

from frn.estimator.loading import load_extractor
from frn.inference.extractor import Embedded, Extractor
from frn.inference.feature_cache import FeatureStore
from frn.ridge.tuning import Prior
from frn.ridge.unlabelled.groups import group

CLASSES, SIZES, DRAWS = 20, (10, 41), 3
Maps = NDArray[np.float32]
Labels = NDArray[np.intp]
Draw = tuple[Maps, list[bytes], Labels]


def drawn(extractor: Extractor, root: Path, seed: int) -> Draw:
    """Return maps (n, r, d), perceptual hashes and labels of the photos in a draw."""
    generator, store = np.random.default_rng(seed), FeatureStore()
    homes = sorted(home for home in root.iterdir() if home.is_dir())
    found: list[Embedded] = []
    labels: list[int] = []
    for label, place in enumerate(generator.permutation(len(homes))[:CLASSES]):
        files = sorted(path for path in homes[place].rglob("*") if path.is_file())
        chosen = [files[i] for i in generator.permutation(len(files))[: generator.integers(*SIZES)]]
        own = [outcome for _, outcome in extractor.read(chosen, store=store) if isinstance(outcome, Embedded)]
        found += own
        labels += [label] * len(own)
    return np.stack([each.maps for each in found]), [each.look for each in found], np.array(labels)


def measure(maps: Maps, looks: list[bytes], labels: Labels, prior: Prior) -> dict[str, float]:
    """Return the results for one draw."""
    count = len(np.unique(labels))
    pooled = maps.mean(1)
    pooled = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    kmeans = KMeans(count, n_init=10, random_state=0).fit_predict(pooled)
    ward = AgglomerativeClustering(count).fit_predict(pooled)
    given, free = (_labels(group(maps, looks, prior, number), len(labels)) for number in (count, None))
    return {
        "kmeans": adjusted_rand_score(labels, kmeans),
        "ward": adjusted_rand_score(labels, ward),
        "groups": adjusted_rand_score(labels, given),
        "classes": count,
        "found": free.max() + 1,
        "rand": adjusted_rand_score(labels, free),
        "keys": keys(labels, free),
    }


def _labels(groups: list[list[list[int]]], count: int) -> Labels:
    labels = np.zeros(count, dtype=np.intp)
    for number, members in enumerate(groups):
        labels[[place for near in members for place in near]] = number
    return labels


def keys(labels: Labels, groups: Labels) -> int:
    """Count the merges and moves that turn the groups into the correct classes."""
    owners = [np.bincount(labels[groups == number]).argmax() for number in range(groups.max() + 1)]
    return len(owners) - len(set(owners)) + int((labels != np.array(owners)[groups]).sum())


def rows(sets: dict[str, list[Draw]], prior: Prior) -> Iterator[str]:
    """Return one line per data set, and the mean."""
    means = []
    for name, draws in sets.items():
        found = [measure(*draw, prior) for draw in draws]
        means.append({key: float(np.mean([row[key] for row in found])) for key in found[0]})
        yield _line(name, means[-1])
    yield _line("mean", {key: float(np.mean([row[key] for row in means])) for key in means[0]})


def _line(name: str, row: dict[str, float]) -> str:
    cells = [
        f"{value:.2f}" if key in ("kmeans", "ward", "groups", "rand") else f"{value:.0f}" for key, value in row.items()
    ]
    return f"| {name} | " + " | ".join(cells) + " |"


def main(
    data: list[Path],
    split: str = "val",
    model: str = "resnet9-photo",
    channels: Annotated[int | None, typer.Option(help="Use so many principal channels: much faster.")] = None,
) -> None:
    """Print a table."""
    extractor = load_extractor(model, "cpu")
    print(
        "| data | k-means | Ward | groups | classes | found | Rand, found | keys |\n|---|---|---|---|---|---|---|---|"
    )
    sets = {root.name: [drawn(extractor, root / split, seed) for seed in range(DRAWS)] for root in data}
    prior = extractor.prior
    if channels:
        for name, draws in sets.items():
            maps, prior = fewer_channels([maps for maps, _, _ in draws], channels, extractor.prior)
            sets[name] = [(fewer, *draw[1:]) for fewer, draw in zip(maps, draws, strict=True)]
    for line in rows(sets, prior):
        print(line, flush=True)


if __name__ == "__main__":
    typer.run(main)
