"""Compare classes with different numbers of photos with and without allowances (`frn.ridge.unequal`).

    python assets/benchmarks/unequal.py DATA... --split val

For each list of numbers of photos, classes and photos of each data set (DATA/val/CLASS/photo) are drawn at random; 40
other photos of each class are queries. Accuracy in percent, without allowances / with them / with the smallest number
of photos for each class:

    mean           mean over the classes
    in proportion  photos come in the proportions of the classes' photos
    small, large   classes with the smallest and with the largest number of photos
    2 to 4, 5 ...  classes with so many photos

Without the offsets of `KnownRule` / with them, also in percent:

    rejected       photos of the smallest classes below the threshold, which 5% of them should be
    auroc          how well `known` separates photos of these classes from those of as many others (at least 4)
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tune import QUERIES, features, left_out

from frn.estimator.loading import load_extractor
from frn.inference.unknown.rule import auroc
from frn.ridge.enrolment import ClassScorer, energy, enroll
from frn.ridge.tuning import Prior, tune_by_leave_one_out
from frn.ridge.unequal import enroll_all

Floats = NDArray[np.floating]
COUNTS = {
    "1 1 1 5 5 5": [1, 1, 1, 5, 5, 5],
    "1 1 1 20 20 20": [1, 1, 1, 20, 20, 20],
    "1 1 1 1 1 10": [1, 1, 1, 1, 1, 10],
    "2 2 2 20 20 20": [2, 2, 2, 20, 20, 20],
    "5 5 5 20 20 20": [5, 5, 5, 20, 20, 20],
    "1 2 5 10 20 20": [1, 2, 5, 10, 20, 20],
    "5 5 5 5 5 5": [5] * 6,
    "20 / rank^0.8": [max(1, round(20 / (rank + 1) ** 0.8)) for rank in range(40)],
}
"""Numbers of photos; of the last ones, a set has as many as it has classes, less one."""
COLUMNS = ("mean", "in proportion", "small", "large", "2 to 4", "5 and more", "rejected", "auroc")


def measure(classes: list[Floats], counts: list[int], prior: Prior, seed: int) -> list[list[float]]:
    """Return the numbers of each cell."""
    draws, most = np.random.default_rng(seed), max(counts)
    enough = [place for place, maps in enumerate(classes) if len(maps) >= most + 5]
    order = draws.permutation(enough)
    drawn = [draws.permutation(classes[place]) for place in order[: len(counts)]]
    strangers = [classes[place][:QUERIES] for place in order[len(counts) : len(counts) + max(len(counts), 4)]]
    pools = [maps[:count] for maps, count in zip(drawn, counts, strict=True)]
    few = [maps[: min(counts)] for maps in drawn]
    queries = [maps[most : most + QUERIES] for maps in drawn]
    head, of_few = tune_by_leave_one_out(pools, prior), tune_by_leave_one_out(few, prior)
    rules = [enroll(pool, head) for pool in pools], enroll_all(pools, head), enroll_all(few, of_few)
    photos, shots = np.array(counts), []
    for scorer in map(ClassScorer, rules):
        right = [(scorer.class_error(maps).argmin(1) == label).mean() for label, maps in enumerate(queries)]
        groups = photos == min(counts), photos == most, (photos > 1) & (photos < 5), photos >= 5
        ends = [np.mean(np.array(right)[group]) if group.any() else np.nan for group in groups]
        shots.append([np.mean(right), np.average(right, weights=photos), *ends])
    fair, unknown = ClassScorer(rules[1]), []
    for rule in (left_out(pools, fair, head, offsets=offsets).rule for offsets in (False, True)):
        known = [
            rule.known((fair.class_error(maps).astype(np.float64), energy(maps), fair.centres.distance(maps)))
            for maps in (*queries, np.concatenate(strangers))
        ]
        small = [(known[place] < rule.threshold).mean() for place in np.flatnonzero(photos == min(counts))]
        unknown.append([np.mean(small), auroc(np.concatenate(known[:-1]), known[-1])])
    return [*(100 * np.array(shots)).T.tolist(), *(100 * np.array(unknown)).T.tolist()]


def parser(description: str | None = __doc__) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="Data sets.")
    parser.add_argument("--split", default="val")
    parser.add_argument("--model", default="frn-photo")
    parser.add_argument("--draws", type=int, default=8)
    return parser


def print_table(sets: list[list[Floats]], prior: Prior, count: int) -> None:
    """Print the means of this many draws of each data set."""
    print("| photos of each class | " + " | ".join(COLUMNS) + " |\n|---" + "|---" * len(COLUMNS) + "|")
    for name, counts in COUNTS.items():
        sizes = [sum(len(maps) >= max(counts) + 5 for maps in each) for each in sets]
        rows = [
            measure(each, counts[: size - 1], prior, seed)
            for each, size in zip(sets, sizes, strict=True)
            if len(counts) > 12 or size >= len(counts) + max(len(counts), 4)
            for seed in range(count)
        ]
        columns = [[each for each in column if not np.isnan(each).any()] for column in zip(*rows, strict=True)]
        cells = [" / ".join(f"{x:.1f}" for x in np.mean(column, 0)) if column else "-" for column in columns]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print what classes of unequal sizes cost, and what allowances give back."""
    options = parser().parse_args()
    extractor = load_extractor(options.model, "cpu")
    print_table([features(extractor, [root / options.split]) for root in options.data], extractor.prior, options.draws)


if __name__ == "__main__":
    main()
