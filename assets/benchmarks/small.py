"""Measure how well small and off-centre subjects are recognised: whole photos, `--tta views`, and boxes.

    python assets/benchmarks/small.py DATA... --backgrounds data/scenes --model frn-photo

Photos of each data set (DATA/val/CLASS/photo) are pasted at a random place into a larger background photo, so that they
cover 45% of its shorter side. Examples and queries are both pasted. Episodes have 5 classes, 1 or 5 shots and 5
queries per class, with alpha chosen at enrolment. Rows:

    photos          the photos as they are, before they are pasted
    pasted          the larger photos
    pasted, views   with `--tta views`
    pasted, boxes   with a box around the subject
"""

import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from bench.photos import draw_classes, pooled_classes
from numpy.typing import NDArray
from PIL import Image

from frn.cli.shell.console import note, print_table, progress_bar, user_errors
from frn.data.folders import scan
from frn.errors import FrnError
from frn.estimator.loading import load_extractor
from frn.images.boxes import Box, box_name
from frn.images.opening import open_image
from frn.inference.extractor import Embedded, Extractor
from frn.models.zoo import DEFAULT_MODEL
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.tuning import tune_by_leave_one_out

CLASSES, PHOTOS, WAY, QUERIES, SIDE = 14, 10, 5, 5, 128
SHAPES = (1.0, 4 / 3, 3 / 4, 3 / 2)
"""Width of a larger photo relative to its height."""
Maps = list[NDArray[np.floating]]


def paste(path: Path, background: Path, share: float, generator: np.random.Generator) -> tuple[Image.Image, Box]:
    """Return a larger photo that contains a photo at a random place, and its box."""
    photo, scene = open_image(path), open_image(background)
    photo.thumbnail((SIDE, SIDE))
    shape = SHAPES[generator.integers(len(SHAPES))]
    short = round(min(photo.size) / share)
    size = max(round(short * max(shape, 1)), photo.width), max(round(short / min(shape, 1)), photo.height)
    scale = max(size[0] / scene.width, size[1] / scene.height)
    larger = scene.resize((max(round(scene.width * scale), size[0]), max(round(scene.height * scale), size[1])))
    larger = larger.crop((0, 0, *size))
    left, top = (int(generator.integers(room + 1)) for room in (size[0] - photo.width, size[1] - photo.height))
    larger.paste(photo, (left, top))
    return larger, Box(left, top, *photo.size)


def read(extractor: Extractor, classes: list[list[Path]]) -> Maps:
    """Return the maps (n, r, d) of each class."""
    found = []
    for paths in classes:
        outcomes = [outcome for _, outcome in extractor.read(paths)]
        found.append(np.stack([outcome.maps for outcome in outcomes if isinstance(outcome, Embedded)]))
    return found


def accuracy(classes: Maps, extractor: Extractor, shot: int, episodes: int) -> NDArray[np.float64]:
    """Return the accuracy of each episode in percent."""
    right = []
    for seed in range(episodes):
        generator = np.random.default_rng([shot, seed])
        drawn = [classes[c][generator.permutation(PHOTOS)] for c in generator.permutation(len(classes))[:WAY]]
        pools, queries = [maps[:shot] for maps in drawn], np.concatenate([maps[-QUERIES:] for maps in drawn])
        head = tune_by_leave_one_out(pools, extractor.prior)
        answers = ClassScorer([enroll(pool, head) for pool in pools]).class_error(queries).argmin(1)
        right.append(100 * (answers == np.repeat(np.arange(WAY), QUERIES)).mean())
    return np.array(right)


def summary(accuracies: NDArray[np.float64]) -> str:
    """Return the mean of the episodes with its 95% interval."""
    return f"{accuracies.mean():.1f} ± {1.96 * accuracies.std() / len(accuracies) ** 0.5:.1f}"


def main(
    data: Annotated[list[Path], typer.Argument(help="Data set with val/. Repeatable.")],
    backgrounds: Annotated[Path, typer.Option(help="Folder of folders of photos to paste into.")],
    model: Annotated[str, typer.Option(help="Model.")] = DEFAULT_MODEL,
    share: Annotated[float, typer.Option(min=0.1, max=1, help="Part of the shorter side.")] = 0.45,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each data set.")] = 100,
) -> None:
    """Measure how well small and off-centre subjects are recognised."""
    with user_errors(), tempfile.TemporaryDirectory() as home:
        scenes = [path for files in scan(backgrounds).members.values() for path in files]
        plain, views = load_extractor(model), load_extractor(model, tta="views")
        found: dict[str, dict[int, list[NDArray[np.float64]]]] = {}
        generator = np.random.default_rng(0)
        with progress_bar("data sets") as progress:
            for number, folder in enumerate(data):
                classes = draw_classes(pooled_classes([folder / "val"]), CLASSES, PHOTOS, seed=0, least=PHOTOS)
                photos, pasted, boxes = list(classes.values()), list[list[Path]](), list[list[Path]]()
                for paths in photos:
                    pasted.append([])
                    boxes.append([])
                    for path in paths:
                        larger, box = paste(path, scenes[generator.integers(len(scenes))], share, generator)
                        place = Path(home) / f"{number}-{len(pasted)}-{len(pasted[-1])}.png"
                        larger.save(place, compress_level=1)
                        pasted[-1].append(place)
                        boxes[-1].append(Path(box_name(str(place), box)))
                rows = {
                    "photos": (photos, plain),
                    "pasted": (pasted, plain),
                    "pasted, views": (pasted, views),
                    "pasted, boxes": (boxes, plain),
                }
                for name, (named, extractor) in rows.items():
                    maps = read(extractor, named)
                    if any(len(each) < PHOTOS for each in maps):
                        raise FrnError(f"{folder}: has photos that cannot be read")
                    for shot in (1, 5):
                        found.setdefault(name, {}).setdefault(shot, []).append(
                            accuracy(maps, extractor, shot, episodes)
                        )
                progress(number + 1, len(data))
        table = [[name, *(summary(np.concatenate(each)) for each in shots.values())] for name, shots in found.items()]
        print_table(["", "1 shot", "5 shots"], table)
        note(f"{model}: mean over {len(data)} data sets, {episodes} episodes each")


if __name__ == "__main__":
    typer.run(main)
