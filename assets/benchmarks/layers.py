"""Train a very small vision transformer, and compare its last layer with the choice of `frn models add --layer auto`.

    python assets/benchmarks/layers.py DATA... --weights vit.pth --minutes 25

The network, timm's `test_vit3` with 4 x 4 tokens, learns the classes of all DATA/train by cross-entropy until MINUTES
of processor time are spent, unless the file of weights exists (timm's names, as `frn models add` opens). Then, in each
draw, 10 classes of DATA/val are enrolled by 5 photos each, on which `--layer auto` also chooses, and up to 20 other
photos of each are classified. Each row has the percentage that is right, and the choice.
"""

import itertools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import bench
import numpy as np
import timm
import torch
import typer
from bench.photos import Classes, draw_classes, pooled_classes
from frn_export.layer_choice import choose_layer, pools_of
from torch.nn import functional as F

from frn.evaluation.accuracy import summarise
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform
from frn.models.model import Model, import_pretrained
from frn.ridge.enrolment import ClassScorer
from frn.ridge.tuning import UNTRAINED, tune_by_leave_one_out
from frn.ridge.unequal import enroll_all

NETWORK, SIDE, STORED = "test_vit3", 64, 76
PHOTOS, BATCH = 150, 128
"""Largest number of photos of a class, and photos of a step."""
SHOTS, QUERIES = 5, 20


def train(classes: Mapping[str, Sequence[Path]], weights: Path, minutes: float) -> None:
    """Fit the network and save its weights."""
    draws, shrink = np.random.default_rng(0), EvaluationTransform(size=STORED, resize=STORED)
    chosen = [draws.permutation(len(paths))[:PHOTOS] for paths in classes.values()]
    pixels = np.stack([shrink(open_image(p[i])) for p, c in zip(classes.values(), chosen, strict=True) for i in c])
    labels = torch.arange(len(chosen)).repeat_interleave(torch.tensor([len(each) for each in chosen]))
    torch.manual_seed(0)
    network = timm.create_model(NETWORK, num_classes=len(chosen), img_size=SIDE, init_values=0.1)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.05)
    start, step = time.process_time(), 0
    while (spent := time.process_time() - start) < 60 * minutes:
        optimizer.param_groups[0]["lr"] = 1e-3 * min(1, step / 300) * (1 - spent / 60 / minutes)
        batch = torch.from_numpy(draws.integers(len(pixels), size=BATCH))
        top, left = draws.integers(STORED - SIDE + 1, size=2)
        crops = torch.from_numpy(pixels[batch, top : top + SIDE, left : left + SIDE]).permute(0, 3, 1, 2)
        images = (crops.flip(3) if step % 2 else crops).float() / 127.5 - 1  # timm's recipe for this network
        loss = F.cross_entropy(network(images), labels[batch])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
    torch.save(network.state_dict(), weights)


def right(model: Model, shots: Classes, others: Classes) -> float:
    """Return the share of the other photos that is right when the shots are enrolled, in percent."""
    pools = pools_of(model, shots)
    scorer = ClassScorer(enroll_all(pools, tune_by_leave_one_out(pools, UNTRAINED)))
    answers = [scorer.class_error(maps).argmin(1) == label for label, maps in enumerate(pools_of(model, others))]
    return 100 * float(np.concatenate(answers).mean())


def main(
    data: Annotated[list[Path], typer.Argument(help="Folders with train and val.")],
    weights: Annotated[Path, typer.Option(help="Weights to use, or to write by training.")],
    minutes: Annotated[float, typer.Option(help="Processor time of the training.")] = 25,
    draws: Annotated[int, typer.Option(help="Draws of classes from each folder.")] = 4,
) -> None:
    """Print a row for each draw of classes, and their mean."""
    if not weights.exists():
        train(pooled_classes([root / "train" for root in data]), weights, minutes)

    def network(layer: int) -> Model:
        return import_pretrained(f"timm:{NETWORK}@{layer}", weights, size=SIDE)

    rows = []
    for root, seed in itertools.product(data, range(draws)):
        drawn = draw_classes(pooled_classes([root / "val"]), 10, SHOTS + QUERIES, seed, least=2 * SHOTS)
        shots = {name: paths[:: len(paths) // SHOTS][:SHOTS] for name, paths in drawn.items()}
        others = {name: [path for path in paths if path not in shots[name]] for name, paths in drawn.items()}
        auto, tried = choose_layer(network, shots, lambda line: None)
        row = [right(model, shots, others) for model in (network(1), auto)]
        rows.append(row)
        print(f"{root.name} {seed}: last {row[0]:.1f}, auto {row[1]:.1f} ({tried[0]})", flush=True)
    last, auto_right = np.mean(rows, 0)
    gain = summarise(np.diff(rows)[:, 0] / 100)
    print(f"mean: last {last:.1f}, auto {auto_right:.1f}; difference {gain}")


if __name__ == "__main__":
    bench.run(main)
