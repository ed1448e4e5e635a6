"""Compare `frn classify --transductive` with other transductive methods on the network's pooled features.

    python assets/benchmarks/transductive.py DATA... --split val --model resnet9-photo

Episodes have 5 classes, 1 or 5 shots, and 75 queries. There are three settings. In the first, all classes have equally
many queries. In the second, these numbers follow a Dirichlet distribution (2, Veilleux et al., NeurIPS 2021). In the
third, 30 more queries come from five unknown classes, so no answer is right for them. Columns:

    alone       as in `frn classify`, top-1 in percent
    together    with `--transductive`; in brackets, the gain in points with the 95% interval of the paired difference
    others      the methods in `transduction/`, on means of the maps; in brackets, the same difference from alone
    ece         expected calibration error, alone and together
    ms          median milliseconds of one episode on one core, of `--transductive` and of each other method

If there are several data sets, the row `all` has the episodes of all of them.
"""

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from transduction import Floats, alpha_tim, bd_cspn, em_dirichlet, laplacian_shot, paddle, unit
from tune import calibration_error, features

from frn.estimator.loading import load_extractor
from frn.evaluation.accuracy import summarise
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import probabilities
from frn.ridge.tuning import Prior, tune_by_leave_one_out
from frn.ridge.unlabelled.transductive import refine

WAY, QUERIES, STRANGERS, EPISODES = 5, 75, 30, 60
KINDS = ("balanced", "dirichlet", "unknown")
METHODS = {
    "BD-CSPN": bd_cspn.label,
    "LaplacianShot": laplacian_shot.label,
    "α-TIM": alpha_tim.label,
    "PADDLE": paddle.label,
    "EM-Dirichlet": em_dirichlet.label,
}
Labels = NDArray[np.int64]


def draw(classes: list[Floats], shot: int, kind: str, seed: int) -> tuple[list[Floats], Floats, Labels]:
    """Return pools, queries and labels of an episode; a query that belongs to no class has the label -1."""
    generator = np.random.default_rng([seed, shot, KINDS.index(kind)])
    order = generator.permutation(len(classes))
    shares = np.full(WAY, 1 / WAY) if kind == "balanced" else generator.dirichlet(np.full(WAY, 2.0))
    sizes = np.full(WAY, QUERIES // WAY) if kind == "balanced" else generator.multinomial(QUERIES, shares)
    drawn = [classes[c][generator.permutation(len(classes[c]))] for c in order[:WAY]]
    queries = [maps[shot : shot + size] for maps, size in zip(drawn, sizes, strict=True)]
    labels = [np.full(len(maps), label) for label, maps in enumerate(queries)]
    if kind == "unknown":
        others = np.concatenate([classes[c] for c in order[WAY : 2 * WAY]])
        queries.append(others[generator.permutation(len(others))[:STRANGERS]])
        labels.append(np.full(STRANGERS, -1))
    return [maps[:shot] for maps in drawn], np.concatenate(queries), np.concatenate(labels)


def pooled(pools: list[Floats], queries: Floats) -> tuple[Floats, Floats]:
    """Return supports (way, shot, d) and queries (q, d) as centred means of their maps, scaled to unit length."""
    supports, means = np.stack([pool.mean(1) for pool in pools]), queries.mean(1)
    centre = np.concatenate([supports.reshape(-1, means.shape[1]), means]).mean(0)
    return unit(supports - centre), unit(means - centre)


Rows = dict[str, list[Any]]  # what was measured in each episode, by method


def measure(classes: list[Floats], prior: Prior, shot: int, kind: str, episodes: int) -> tuple[Rows, Rows, Rows]:
    """Return the accuracy of each episode, all probabilities alone and together, and the processor time, in seconds."""
    right: Rows = {name: [] for name in ("alone", "together", *METHODS)}
    sure: Rows = {"alone": [], "together": []}
    seconds: Rows = {name: [] for name in ("together", *METHODS)}
    for seed in range(episodes):
        pools, queries, labels = draw(classes, shot, kind, seed)
        head, known = tune_by_leave_one_out(pools, prior), labels >= 0
        errors = ClassScorer([enroll(pool, head) for pool in pools]).class_error(queries).astype(float)
        began = time.process_time()
        refined, gamma = refine(errors, pools, queries, head)
        seconds["together"].append(time.process_time() - began)
        for name, class_errors, temperature in (("alone", errors, head.gamma), ("together", refined, gamma)):
            shares = probabilities(class_errors, temperature)[known]
            hits = shares.argmax(1) == labels[known]
            right[name].append(hits.mean())
            sure[name].append({"sure": shares.max(1).tolist(), "right": hits.tolist()})
        for name, method in METHODS.items():
            began = time.process_time()
            answers = method(*pooled(pools, queries)).argmax(1)
            seconds[name].append(time.process_time() - began)
            right[name].append((answers == labels)[known].mean())
    return right, sure, seconds


def cells(right: Rows, sure: Rows, seconds: Rows) -> str:
    """Return the cells of a row."""
    row = [f"{100 * np.mean(right['alone']):.1f}"]
    for name in ("together", *METHODS):
        gain = summarise(np.subtract(right[name], right["alone"]))
        row.append(f"{100 * np.mean(right[name]):.1f} ({gain.mean:+.1f} ± {gain.ci95:.1f})")
    row.append(" → ".join(f"{100 * calibration_error(rows):.1f}" for rows in sure.values()))
    row.append(" / ".join(f"{1000 * np.median(values):.0f}" for values in seconds.values()))
    return " | ".join(row)


def fewer_channels(classes: list[Floats], channels: int, prior: Prior) -> tuple[list[Floats], Prior]:
    """Return the maps' principal channels (96 of 384 hold 96% of the energy), and a prior for the same lambda."""
    every = np.concatenate(classes)
    d = every.shape[-1]
    rows = every.reshape(-1, d)[::4]
    axes = np.linalg.eigh((rows.T @ rows).astype(float))[1][:, -channels:].astype(np.float32)
    return [maps @ axes for maps in classes], replace(prior, alpha=prior.alpha + math.log(channels / d))


def main(
    data: list[Path],
    split: str = "val",
    model: str = "resnet9-photo",
    episodes: int = EPISODES,
    channels: Annotated[int | None, typer.Option(help="Use so many principal channels: much faster.")] = None,
) -> None:
    """Print a table."""
    extractor = load_extractor(model, "cpu")
    sets = {root.name: features(extractor, [root / split]) for root in data}
    names = ("alone", "together", *METHODS, "ECE", "ms")
    print("| data | shots | queries | " + " | ".join(names) + " |\n" + "|---" * (3 + len(names)) + "|")
    for shot in (1, 5):
        for kind in KINDS:
            together: tuple[Rows, Rows, Rows] = ({}, {}, {})
            for name, classes in sets.items():
                maps, prior = classes, extractor.prior
                if channels:
                    maps, prior = fewer_channels(classes, channels, prior)
                parts = measure(maps, prior, shot, kind, episodes)
                for every, part in zip(together, parts, strict=True):
                    for method, values in part.items():
                        every.setdefault(method, []).extend(values)
                print(f"| {name} | {shot} | {kind} | {cells(*parts)} |", flush=True)
            if len(sets) > 1:
                print(f"| all | {shot} | {kind} | {cells(*together)} |", flush=True)


if __name__ == "__main__":
    typer.run(main)
