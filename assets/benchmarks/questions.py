"""Ask for the labels of a folder one by one, and compare the stated accuracy with the real one.

    python assets/benchmarks/questions.py DATA... --split val

For each draw, classes of each data set (DATA/val/CLASS/photo) are enrolled from a few photos, and other photos of them
are classified. Each label enrolls its class again. Stated and real accuracy in percent after some labels:

    margin    the answer with the smallest lead over its rival is asked next, as `n` does in the app
    settle    the answer is asked whose doubt, weighted by how alike they are, is that of the most other answers

The last column is the number of labels to 97% that the app states at the start, and the real accuracy after as many.
"""

import argparse
from pathlib import Path

import numpy as np
from frn_tui.document.review_state import GOAL, OPTIMISM
from numpy.typing import NDArray
from tune import features

from frn.estimator.loading import load_extractor
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import probabilities
from frn.ridge.tuning import Prior, tune_by_leave_one_out

Floats = NDArray[np.floating]
SHOWN = (0, 8, 16, 24)


def ask(classes: list[Floats], order: str, options: argparse.Namespace, prior: Prior, seed: int) -> list[float]:
    """Return stated and real accuracies after each number of labels of `SHOWN`, and at the stated number of labels."""
    draws, shot, count = np.random.default_rng(seed), options.shot, options.queries
    enough = [maps for maps in classes if len(maps) >= shot + count]
    drawn = [draws.permutation(enough[place]) for place in draws.permutation(len(enough))[: options.way]]
    pools, photos = [maps[:shot] for maps in drawn], np.concatenate([maps[shot : shot + count] for maps in drawn])
    truth, head = np.repeat(np.arange(len(drawn)), count), tune_by_leave_one_out(pools, prior)
    errors = np.stack([ClassScorer([enroll(pool, head)]).class_error(photos)[:, 0] for pool in pools], 1)
    means = photos.mean(1) - photos.mean((0, 1))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    alike = (means @ means.T).clip(0) ** 4  # power of the cosine of two photos' mean locations
    is_labelled, stated, real = np.zeros(len(photos), bool), [], []
    keys = 0
    for number in range(len(photos)):
        chances = probabilities(errors, head.gamma)
        first, second = np.sort(chances, 1)[:, :-3:-1].T
        certain = np.where(is_labelled, 1, 1 - OPTIMISM * (1 - first))
        stated.append(certain.mean())
        real.append(((chances.argmax(1) == truth) | is_labelled).mean())
        if not number:
            gains = np.cumsum(np.sort(1 - certain)[::-1]) / len(photos)
            keys = int(np.searchsorted(certain.mean() + np.append(0, gains), GOAL))
        if number >= max(keys, *SHOWN):
            break
        doubt = 1 - certain
        wanted = alike @ doubt * doubt if order == "settle" else second - first - 2 * is_labelled
        chosen = int(wanted.argmax())
        is_labelled[chosen], label = True, truth[chosen]
        pools[label] = np.concatenate([pools[label], photos[chosen : chosen + 1]])
        errors[:, label] = ClassScorer([enroll(pools[label], head)]).class_error(photos)[:, 0]
    return [*(100 * value for number in SHOWN for value in (stated[number], real[number])), keys, 100 * real[keys]]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="Data sets.")
    parser.add_argument("--split", default="val")
    parser.add_argument("--model", default="frn-photo")
    for name, value in (("draws", 2), ("way", 8), ("shot", 5), ("queries", 25)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    extractor = load_extractor(options.model, "cpu")
    print("| data, order | " + " | ".join(f"{number} labels" for number in SHOWN) + " | to 97% |")
    print("|---" * (len(SHOWN) + 2) + "|")
    for root in options.data:
        classes = features(extractor, [root / options.split])
        for order in ("margin", "settle"):
            runs = [ask(classes, order, options, extractor.prior, seed) for seed in range(options.draws)]
            *pairs, keys, after = np.mean(runs, 0)
            cells = [f"{stated:.1f} / {real:.1f}" for stated, real in zip(pairs[::2], pairs[1::2], strict=True)]
            print(f"| {root.name}, {order} | " + " | ".join([*cells, f"{keys:.0f}: {after:.1f}"]) + " |", flush=True)


if __name__ == "__main__":
    main()
