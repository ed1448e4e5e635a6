"""Measure the gain from choosing alpha and gamma at enrolment, and compare with other classifiers on the same features.

    python assets/benchmarks/tune.py DATA... --split val --model resnet9-photo
    python assets/benchmarks/tune.py DATA... --split val test --way 5 20 50 --method
    python assets/benchmarks/tune.py DATA... --split . --method logreg       DATA/CLASS/photo, and one other classifier
    python assets/benchmarks/tune.py DATA... --model resnet9-photo frn-photo runs/mine      tables that compare models
    python assets/benchmarks/tune.py FAR... --near cub/val dogs/val --split . --shot 1 --method        two tables

Classes and photos of each data set (DATA/val/CLASS/photo) are drawn at random. Photos that are not enrolled are
queries. If there are enough classes, the same number of further classes are unknown. Every result is a mean over draws
and then over data sets, in percent:

    trained, tuned      top-1 with the model's own alpha, and as in `frn classify`
    logreg, ...         top-1 of `CLASSICAL` (or of each --method) on pooled features, as in `frn eval --method`
    ece                 expected calibration error of `tuned`
    rejected, caught    share of known and of unknown photos rejected; `stated` is the expected share
    share, auroc        AUROC of the explained share with the trained alpha, and of `known`; `known.py` has more

Several models are compared by `tuned` on the same photos and draws, in one table for each way. Its last rows have the
mean over data sets, and by how much it differs from the last model's, with the 95% interval over draws.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from frn.estimator.loading import load_extractor
from frn.features.extractor import Embedded, Extractor
from frn.heads.vectors.classical import CLASSICAL, ClassicalHead
from frn.inference.unknown.calibration import Calibration, calibrate
from frn.inference.unknown.rule import auroc, explained, without_itself
from frn.ridge.enrolment import ClassScorer, allowed, energy, enroll, leave_one_out
from frn.ridge.parameters import HeadParameters, probabilities
from frn.ridge.tuning import tune_by_leave_one_out
from frn.ridge.unequal import as_smallest, without_one

PHOTOS, QUERIES, BINS = 60, 40, 10
SHOTS, WAYS, DRAWS = (1, 5, 20), (5, 20, 0), {5: 12, 20: 6, 50: 3, 0: 3}
"""The way 0 stands for all classes of a data set."""
Floats = NDArray[np.floating]


def features(extractor: Extractor, roots: list[Path]) -> list[Floats]:
    """Return maps (n, r, d) of up to `PHOTOS` photos of every class."""
    pools = []
    for number, home in enumerate(home for root in roots for home in sorted(root.iterdir())):
        files = sorted(path for path in home.rglob("*") if path.is_file())
        chosen = np.random.default_rng(number).permutation(len(files))[:PHOTOS]
        read = extractor.read(files[place] for place in sorted(chosen))
        pools.append(np.stack([outcome.maps for _, outcome in read if isinstance(outcome, Embedded)]))
    return pools


def measure(
    extractor: Extractor, classes: list[Floats], way: int, shot: int, seed: int, methods: Sequence[str]
) -> dict[str, object]:
    """Return the results for one draw, as fractions."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(classes))
    drawn = [classes[c][generator.permutation(len(classes[c]))] for c in order[:way]]
    pools = [maps[:shot] for maps in drawn]
    queries = np.concatenate([maps[shot : shot + QUERIES] for maps in drawn])
    labels = np.repeat(np.arange(way), [len(maps[shot : shot + QUERIES]) for maps in drawn])
    strangers = [classes[c][:QUERIES] for c in order[way : 2 * way]]
    assert extractor.head
    head = tune_by_leave_one_out(pools, extractor.prior)
    scorer = ClassScorer([enroll(pool, head) for pool in pools])
    trained = ClassScorer([enroll(pool, extractor.head) for pool in pools])
    errors, before = scorer.class_error(queries).astype(float), trained.class_error(queries)
    shares = probabilities(errors, head.gamma)
    row: dict[str, object] = {
        "trained": float((before.argmin(1) == labels).mean()),
        "tuned": float((errors.argmin(1) == labels).mean()),
        **others(pools, queries, labels, methods),
        "sure": shares.max(1).tolist(),
        "right": (shares.argmax(1) == labels).tolist(),
    }
    if shot > 1:
        calibrated = left_out(pools, scorer, head)
        rule = calibrated.rule
        known = rule.known((errors, energy(queries), scorer.centres.distance(queries)))
        row["rejected"] = float((known < rule.threshold).mean())
        row["stated"], row["expected"] = calibrated.caught, calibrated.auroc
    if strangers:
        unknown = np.concatenate(strangers)
        foreign = scorer.class_error(unknown).astype(float)
        row["share"] = auroc(
            explained(before, energy(queries)).max(1), explained(trained.class_error(unknown), energy(unknown)).max(1)
        )
        if shot > 1:
            chances = rule.known((foreign, energy(unknown), scorer.centres.distance(unknown)))
            row["auroc"], row["caught"] = auroc(known, chances), float((chances < rule.threshold).mean())
    return row


def left_out(pools: list[Floats], scorer: ClassScorer, head: HeadParameters, *, offsets: bool = True) -> Calibration:
    """Return the calibration of the enrolled classes, with or without the offsets of unequal ones."""
    counts = [len(pool) for pool in pools]
    photos, labels, least = np.concatenate(pools), np.repeat(np.arange(len(pools)), counts), min(counts)
    errors, energies = scorer.class_error(photos).astype(float), energy(photos)
    more = [without_one(one.allowance, k, least) for one, k in zip(scorer.classes, counts, strict=True)]
    own_errors = np.concatenate([leave_one_out(pool, head) for pool in pools])
    shares = np.array([each.share for each in more])[labels]
    errors[np.arange(len(labels)), labels] = own_errors + allowed(own_errors, energies, shares, scorer.usual)
    distances = without_itself(scorer.centres.distance(photos), labels.tolist(), counts)
    smaller = [
        as_smallest(pool, place, least, head) if len(pool) > least else (-1.0, -1.0)
        for pool in pools
        for place in range(len(pool))
    ]
    scaled = np.array(smaller) / [1, scorer.centres.scale]
    several = np.array(counts)[labels] > 1
    measures = errors[several], energies[several], distances[several]
    return calibrate(measures, labels[several], head.gamma, counts=counts, smaller=scaled[several] if offsets else None)


def others(pools: list[Floats], queries: Floats, labels: NDArray[np.int64], methods: Sequence[str]) -> dict[str, float]:
    """Return top-1 accuracy of classifiers on pooled features."""
    support, query = (torch.from_numpy(np.asarray(maps, dtype=np.float32)) for maps in (np.stack(pools), queries))
    answers_of = {name: ClassicalHead(CLASSICAL[name])(support, query).argmax(1).numpy() for name in methods}
    return {name: float((answers == labels).mean()) for name, answers in answers_of.items()}


def calibration_error(rows: list[dict[str, object]]) -> float:
    """Return the expected calibration error over all queries in all draws."""
    sure, right = (np.concatenate([row[name] for row in rows]) for name in ("sure", "right"))
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = [abs(sure[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return float(sum(gaps))


def accuracies(extractor: Extractor, classes: list[Floats], way: int, draws: int) -> Floats:
    """Return the accuracy as enrolled, in percent: a row for each of `SHOTS`, with a column for each draw."""
    rows = []
    for shot in SHOTS:
        enough = [maps for maps in classes if len(maps) >= shot + 5]
        size = min(way or len(enough), len(enough))
        rows.append([measure(extractor, enough, size, shot, seed, ())["tuned"] for seed in range(draws)])
    return 100 * np.array(rows, dtype=float)


def compare(names: Sequence[str], roots: list[Path], splits: list[str], ways: Sequence[int], draws: int | None) -> None:
    """Print a table for each way, with a column for each model."""
    models = [load_extractor(name, "cpu") for name in names]
    sets = [[features(model, [root / split for split in splits]) for model in models] for root in roots]
    for way in ways:
        count = draws or DRAWS.get(way, 1)
        table = np.array(  # data, model, shot, draw
            [[accuracies(*pair, way, count) for pair in zip(models, maps, strict=True)] for maps in sets]
        )
        print(f"\n| {way or 'all'} classes | {' | '.join(names)} |\n{'|---' * (len(names) + 1)}|")
        for root, maps, rows in zip(roots, sets, table, strict=True):
            print_row(f"{root.name} ({len(maps[0])})", rows.mean(2))
        print_row("mean", table.mean((0, 3)))
        gains = table[:, -1:] - table[:, :-1]
        spread = 1.96 * np.sqrt((gains.var(3, ddof=1) / count).sum(0)) / len(roots)
        print_row(f"{names[-1]} ahead by", gains.mean((0, 3)), spread)


def print_row(name: str, values: Floats, spread: Floats | None = None) -> None:
    """Print a row of a table in Markdown: values (models, shots) and their intervals."""
    texts = [[f"{value:.1f}" for value in row] for row in values]
    if spread is not None:
        texts = [
            [f"{x:+.1f} ± {s:.1f}" for x, s in zip(*pair, strict=True)] for pair in zip(values, spread, strict=True)
        ]
    print(f"| {name} | {' | '.join(' / '.join(row) for row in texts)} |", flush=True)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="Data sets.")
    parser.add_argument("--near", type=Path, nargs="+", help="More data sets, with a table of their own.")
    parser.add_argument("--split", nargs="+", default=["val"])
    parser.add_argument("--shot", type=int, nargs="+", default=SHOTS)
    parser.add_argument("--way", type=int, nargs="+", default=WAYS)
    parser.add_argument("--method", nargs="*", choices=CLASSICAL, default=[*CLASSICAL])
    parser.add_argument("--model", nargs="+", default=["resnet9-photo"], help="Several print tables that compare them.")
    parser.add_argument("--draws", type=int, help="Number of draws.")
    parser.add_argument("--json", action="store_true")
    return parser


def main() -> None:
    """Print a table, or a JSON line per data set."""
    options = parser().parse_args()
    if options.data and len(options.model) > 1:
        compare(options.model, options.data, options.split, options.way, options.draws)
        return
    extractor = load_extractor(options.model[0], "cpu")
    for roots in filter(None, (options.data, options.near)):
        print_means(extractor, roots, options)


def print_means(extractor: Extractor, roots: list[Path], options: argparse.Namespace) -> None:
    """Print a table of the means over data sets."""
    sets = {str(root): features(extractor, [root / split for split in options.split]) for root in roots}
    print("way shot " + " ".join(f"{name:>8}" for name in NAMES))
    for way in options.way:
        for shot in options.shot:
            table = []
            for name, classes in sets.items():
                enough = [maps for maps in classes if len(maps) >= shot + 5]
                size = min(way or len(enough), len(enough))
                draws = range(options.draws or DRAWS.get(way, 1))
                rows = [measure(extractor, enough, size, shot, seed, options.method) for seed in draws]
                means = {key: float(np.mean([row[key] for row in rows])) for key in NAMES if key in rows[0]}
                table.append(means | {"ece": calibration_error(rows)})
                if options.json:
                    print(json.dumps({"data": name, "way": size, "shot": shot, **table[-1]}), flush=True)
            known = [[row[key] for row in table if key in row] for key in NAMES]
            cells = [f"{100 * np.mean(values):8.1f}" if values else f"{'-':>8}" for values in known]
            print(f"{way or 'all':>3} {shot:4d} " + " ".join(cells), flush=True)


NAMES = ("trained", "tuned", *CLASSICAL, "ece", "rejected", "caught", "stated", "expected", "share", "auroc")

if __name__ == "__main__":
    main()
