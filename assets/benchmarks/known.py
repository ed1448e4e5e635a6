"""Compare `known` with the familiarity of earlier versions, and unequal classes with and without their corrections.

    python assets/benchmarks/known.py DATA... --split val

For each number of classes and photos, classes of each data set (DATA/val/CLASS/photo) are drawn at random. Other photos
of these classes are known, those of as many further classes (12 or more, if there are; at least 4) are unknown. In
percent:

    auroc     how well they separate known from unknown photos: familiarity / the error against the next five classes
              alone / the equal sum of the standardised terms of `known` / `known`
    rejected  known photos below the threshold, which 5% of the examples are below: familiarity / known
    caught    unknown photos below it: familiarity / known
    stated    the share of unknown photos below it that is expected from the examples: familiarity / known
    off       by how much `stated` differs from `caught` in a single draw: stated (`caught_error`) / measured

The second table is that of `unequal.py`.
"""

import numpy as np
from tune import PHOTOS, QUERIES, features, left_out
from unequal import Floats, parser, print_table

from frn.estimator.loading import load_extractor
from frn.inference.unknown.rule import Measures, auroc, terms, without_itself
from frn.ridge.enrolment import ClassScorer, energy, leave_one_out
from frn.ridge.tuning import Prior, tune_by_leave_one_out
from frn.ridge.unequal import enroll_all

SHAPES = ((2, 5), (3, 5), (5, 2), (5, 5), (5, 20), (12, 5), (12, 20), (25, 5), (25, 20), (30, 5), (30, 20))
COLUMNS = ("auroc", "rejected", "caught", "stated", "off")


def familiarity(measures: Measures) -> Floats:
    """Return 1 - best / sqrt(energy * mean of the next five / nearest distance), the statistic of earlier versions."""
    errors, energies, distances = measures
    ranked = np.sort(errors, axis=1)
    rivals = ranked[:, 1:6].mean(1) if errors.shape[1] > 1 else energies
    return 1 - ranked[:, 0] / np.sqrt(energies * rivals / distances.min(1).clip(1e-6))


def measure(classes: list[Floats], way: int, shot: int, prior: Prior, seed: int) -> list[Floats]:
    """Return the cells of a draw, in percent."""
    draws = np.random.default_rng(seed)
    drawn = [draws.permutation(maps) for maps in (classes[place] for place in draws.permutation(len(classes)))]
    pools = [maps[:shot] for maps in drawn[:way]]
    known = np.concatenate([maps[shot : shot + QUERIES] for maps in drawn[:way]])
    unknown = np.concatenate([maps[:QUERIES] for maps in drawn[way : way + max(way, 12)]])
    head = tune_by_leave_one_out(pools, prior)
    scorer = ClassScorer(enroll_all(pools, head))

    def measures(maps: Floats) -> Measures:
        return scorer.class_error(maps).astype(np.float64), energy(maps), scorer.centres.distance(maps)

    labels = np.repeat(np.arange(way), shot)
    errors, energies, distances = measures(np.concatenate(pools))
    errors[np.arange(len(labels)), labels] = np.concatenate([leave_one_out(pool, head) for pool in pools])
    distances = without_itself(distances, labels.tolist(), [shot] * way)
    calibrated = left_out(pools, scorer, head)
    others = np.arange(way) != labels[:, None]
    foreign = (each[others].reshape(len(labels), -1) for each in (errors, distances))
    apart = familiarity((next(foreign), energies, next(foreign)))
    sides, examples = [measures(maps) for maps in (known, unknown)], (errors, energies, distances)
    old, new = ([rule(side) for side in sides] for rule in (familiarity, calibrated.rule.known))
    parts = [terms(side, head.gamma) / terms(examples, head.gamma).std(0) for side in sides]
    pairs = old, [each[:, 1] for each in parts], [each.sum(1) for each in parts], new
    limits = float(np.quantile(familiarity(examples), 0.05)), calibrated.rule.threshold
    rates = [[(side < limit).mean() for side in each] for each, limit in zip((old, new), limits, strict=True)]
    rejected, caught = zip(*rates, strict=True)
    stated = [(apart < limits[0]).mean(), calibrated.caught]
    cells = [
        [auroc(*each) for each in pairs],
        rejected,
        caught,
        stated,
        [calibrated.caught_error, stated[1] - caught[1]],
    ]
    return [100 * np.array(each) for each in cells]


def main() -> None:
    """Print a table."""
    options = parser(__doc__).parse_args()
    extractor = load_extractor(options.model, "cpu")
    sets = [features(extractor, [root / options.split]) for root in options.data]
    print("| classes x photos | " + " | ".join(COLUMNS) + " |\n|---" + "|---" * len(COLUMNS) + "|")
    for way, shot in SHAPES:
        large = [[maps for maps in each if len(maps) >= min(shot + 5, PHOTOS)] for each in sets]
        large = [each for each in large if len(each) >= way + min(max(way, 4), 20)]
        draws = options.draws * max(1, 60 // (way * shot))  # few examples need more of them
        rows = [measure(each, way, shot, extractor.prior, seed) for each in large for seed in range(draws)]
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        means = [*(column.mean(0) for column in columns[:-1]), np.sqrt(np.square(columns[-1]).mean(0))]
        cells = [" / ".join(f"{value:.1f}" for value in column) for column in means]
        print(f"| {way} x {shot} | " + " | ".join(cells) + " |", flush=True)
    print()
    print_table(sets, extractor.prior, options.draws)


if __name__ == "__main__":
    main()
