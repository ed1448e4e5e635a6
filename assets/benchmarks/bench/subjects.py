"""Photos with small subjects: with annotated boxes, or pasted into other photos."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.images.boxes import Box, box_name, split_box
from frn.images.opening import open_image
from frn.projects.class_files import class_files

SIDE, LEAST = 128, 16
"""Longest side of a pasted photo, and least side of an annotated box, in pixels."""
SHAPES = (1.0, 4 / 3, 3 / 4, 3 / 2)
"""Width of a photo with a pasted subject relative to its height."""
CANVAS = 480, 320
"""Width and height of a photo with several subjects."""
Classes = dict[str, list[Path]]
Places = list[tuple[str, Box]]


@dataclass(frozen=True, slots=True)
class Draw:
    """Photos with boxes: the examples of each class, and queries with their classes."""

    examples: list[list[Path]]
    queries: list[Path]
    labels: NDArray[np.intp]

    @classmethod
    def of(cls, classes: Sequence[Sequence[Path]], shot: int, queries: int, draws: np.random.Generator) -> "Draw":
        """Draw from classes of enough photos."""
        drawn = [[paths[place] for place in draws.permutation(len(paths))] for paths in classes]
        chosen = [path for paths in drawn for path in paths[shot : shot + queries]]
        return cls([paths[:shot] for paths in drawn], chosen, np.repeat(np.arange(len(classes)), queries))


def paste(path: Path, background: Path, share: float, draws: np.random.Generator) -> tuple[Image.Image, Box]:
    """Return a larger photo that contains a photo at a random place, and its box."""
    photo, scene = open_image(path), open_image(background)
    photo.thumbnail((SIDE, SIDE))
    shape = SHAPES[draws.integers(len(SHAPES))]
    short = round(min(photo.size) / share)
    size = max(round(short * max(shape, 1)), photo.width), max(round(short / min(shape, 1)), photo.height)
    scale = max(size[0] / scene.width, size[1] / scene.height)
    larger = scene.resize((max(round(scene.width * scale), size[0]), max(round(scene.height * scale), size[1])))
    larger = larger.crop((0, 0, *size))
    left, top = (int(draws.integers(room + 1)) for room in (size[0] - photo.width, size[1] - photo.height))
    larger.paste(photo, (left, top))
    return larger, Box(left, top, *photo.size)


def whole(path: Path) -> Path:
    """Return the name of the whole photo."""
    return split_box(path)[0]


def overlap(one: Box, other: Box) -> float:
    """Return the intersection of two boxes over their union."""
    across = min(one.left + one.width, other.left + other.width) - max(one.left, other.left)
    down = min(one.top + one.height, other.top + other.height) - max(one.top, other.top)
    shared = max(across, 0) * max(down, 0)
    return shared / (one.width * one.height + other.width * other.height - shared)


def elsewhere(path: Path) -> Path:
    """Return a box of the same size in the corner of the photo that is farthest from the box of a path."""
    file, box = split_box(path)
    assert box is not None  # boxed examples
    room = [whole - part for whole, part in zip(open_image(file).size, box[2:], strict=True)]
    left, top = (0 if 2 * place > most else most for place, most in zip(box[:2], room, strict=True))
    return Path(box_name(str(file), Box(left, top, *box[2:])))


def several(scene: Path, photos: Sequence[tuple[str, Path]], draws: np.random.Generator) -> tuple[Image.Image, Places]:
    """Return a scene with photos at random places that do not overlap, and the class and box of each."""
    size = CANVAS
    background = open_image(scene)
    scale = max(size[0] / background.width, size[1] / background.height)
    wide, high = (max(round(side * scale), least) for side, least in zip(background.size, size, strict=True))
    larger = background.resize((wide, high))
    larger = larger.crop((0, 0, *size))
    placed: Places = []
    for name, path in photos:
        photo, side = open_image(path), int(draws.integers(3 * SIDE // 4, 5 * SIDE // 4))
        photo.thumbnail((side, side))
        for _ in range(60):
            left, top = (int(draws.integers(room + 1)) for room in (size[0] - photo.width, size[1] - photo.height))
            box = Box(left, top, *photo.size)
            if not any(overlap(box, other) for _, other in placed):
                larger.paste(photo, (left, top))
                placed.append((name, box))
                break
    return larger, placed


def boxed_photos(sources: Sequence[Path]) -> Classes:
    """Return the photos with exactly one box, of at least `LEAST` pixels, by class."""
    labelled = [pair for source in sources for pair in class_files(source).members.items()]
    count: dict[Path, int] = {}
    for _, paths in labelled:
        for path in paths:
            count[whole(path)] = count.get(whole(path), 0) + 1
    classes: Classes = {}
    for name, paths in labelled:
        for path in paths:
            box = split_box(path)[1]
            if count[whole(path)] == 1 and whole(path).is_file() and box and min(box.width, box.height) >= LEAST:
                classes.setdefault(name, []).append(path)
    return classes
