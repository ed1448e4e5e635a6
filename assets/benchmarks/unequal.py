"""Compare classes with different numbers of photos with and without allowances (`frn.ridge.unequal`).

    python assets/benchmarks/unequal.py DATA... --split val

For each list of numbers of photos, classes and photos of each data set (DATA/val/CLASS/photo) are drawn at random; 40
other photos of each class are queries. Accuracy in percent, without allowances / with them / with the smallest number
of photos for each class:

    mean           mean over the classes
    in proportion  photos come in the proportions of the classes' photos
    small, large   classes with the smallest and with the largest number of photos
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tune import QUERIES, features

from frn.estimator.loading import load_extractor
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.tuning import Prior, tune_by_leave_one_out
from frn.ridge.unequal import enroll_all

Floats = NDArray[np.floating]
COUNTS = {
    "1 1 1 5 5 5": [1, 1, 1, 5, 5, 5],
    "1 1 1 20 20 20": [1, 1, 1, 20, 20, 20],
    "2 2 2 20 20 20": [2, 2, 2, 20, 20, 20],
    "5 5 5 20 20 20": [5, 5, 5, 20, 20, 20],
    "1 2 5 10 20 20": [1, 2, 5, 10, 20, 20],
    "5 5 5 5 5 5": [5] * 6,
    "20 / rank^0.8": [max(1, round(20 / (rank + 1) ** 0.8)) for rank in range(24)],
}
COLUMNS = ("mean", "in proportion", "small", "large")


def measure(classes: list[Floats], counts: list[int], prior: Prior, seed: int) -> Floats:
    """Return accuracies (3, 4) in percent: three rules, four columns."""
    draws, most = np.random.default_rng(seed), max(counts)
    enough = [place for place, maps in enumerate(classes) if len(maps) >= most + 5]
    drawn = [draws.permutation(classes[place]) for place in draws.permutation(enough)[: len(counts)]]
    pools = [maps[:count] for maps, count in zip(drawn, counts, strict=True)]
    few = [maps[: min(counts)] for maps in drawn]
    queries = [maps[most : most + QUERIES] for maps in drawn]
    head, of_few = tune_by_leave_one_out(pools, prior), tune_by_leave_one_out(few, prior)
    rules = [enroll(pool, head) for pool in pools], enroll_all(pools, head), enroll_all(few, of_few)
    photos, shots = np.array(counts), []
    for scorer in map(ClassScorer, rules):
        right = [(scorer.class_error(maps).argmin(1) == label).mean() for label, maps in enumerate(queries)]
        ends = [np.mean(np.array(right)[photos == size]) for size in (min(counts), most)]
        shots.append([np.mean(right), np.average(right, weights=photos), *ends])
    return 100 * np.array(shots)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="Data sets.")
    parser.add_argument("--split", default="val")
    parser.add_argument("--model", default="frn-photo")
    parser.add_argument("--draws", type=int, default=8)
    return parser


def main() -> None:
    """Print a table."""
    options = parser().parse_args()
    extractor = load_extractor(options.model, "cpu")
    sets = [features(extractor, [root / options.split]) for root in options.data]
    print("| photos of each class | " + " | ".join(COLUMNS) + " |\n|---" + "|---" * len(COLUMNS) + "|")
    for name, counts in COUNTS.items():
        enough = [s for s in sets if sum(len(maps) >= max(counts) + 5 for maps in s) >= len(counts)]
        rows = [measure(s, counts, extractor.prior, seed) for s in enough for seed in range(options.draws)]
        cells = [" / ".join(f"{value:.1f}" for value in column) for column in np.mean(rows, 0).T]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
