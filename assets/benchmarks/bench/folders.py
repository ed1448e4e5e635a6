"""Folders of moth drawings, for benchmarks. A JPEG with appended bytes is a different file with the same image."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from frn.data.synthetic import draw_moth, species

SIDE = 96
WAY, SHOT = 20, 5
LARGE = 3


@dataclass(frozen=True, slots=True)
class Photos:
    """The folder in which all these folders are."""

    twenty: Path
    """20 classes of 5 photos."""
    hundreds: Path
    """200 classes of 5 photos."""
    queries: list[Path]
    """One more photo of each of the 20 classes, to be classified."""
    extra: Path
    """A folder with so many photos that embedding them takes a long time."""
    thousand: Path
    """A folder of 1,000 photos."""
    home: Path
    """A folder that contains only `many`."""
    many: Path
    """A folder of 10,000 photos."""
    large: list[Path]
    """Photos of 12 megapixels."""


def draw(folder: Path, *, many: int, hundreds: int, extra: int, thousand: int) -> Photos:
    """Draw the folders.

    Args:
        folder: where to make the folders.
        many: number of photos in `many`.
        hundreds: number of classes in `hundreds`.
        extra: number of photos in `extra`.
        thousand: number of photos in `thousand`.
    """
    photos = Photos(
        folder / "twenty",
        folder / "hundreds",
        [folder / "queries" / f"query-{label:02d}.jpg" for label in range(WAY)],
        folder / "extra",
        folder / "thousand",
        folder / "home",
        folder / "home" / "many",
        [folder / "large" / f"{number}.jpg" for number in range(LARGE)],
    )
    (folder / "large").mkdir(parents=True)
    for number, path in enumerate(photos.large):
        moth = draw_moth(species(number), np.random.default_rng([8, number]), SIDE).resize((4000, 3000))
        moth.effect_spread(9).save(path, quality=88)
    for place in (folder / "queries", photos.extra, photos.thousand, photos.many):
        place.mkdir(parents=True)
    drawn = []
    for label in range(WAY):
        (photos.twenty / f"moth {label:03d}").mkdir(parents=True)
        paths = [photos.twenty / f"moth {label:03d}" / f"{number}.jpg" for number in range(SHOT)]
        for number, path in enumerate([*paths, photos.queries[label]]):
            draw_moth(species(label), np.random.default_rng([7, label, number]), SIDE).save(path, quality=88)
            drawn.append(path)
    pictures = [path.read_bytes() for path in drawn]
    for number in range(extra):
        (photos.extra / f"{number:05d}.jpg").write_bytes(pictures[number % len(pictures)] + b"extra%d" % number)
    for number in range(thousand):
        (photos.thousand / f"{number:05d}.jpg").write_bytes(pictures[number % len(pictures)] + b"more%d" % number)
    for label in range(hundreds):
        (photos.hundreds / f"moth {label:03d}").mkdir(parents=True)
        for number in range(SHOT):
            path = photos.hundreds / f"moth {label:03d}" / f"{number}.jpg"
            path.write_bytes(pictures[label % WAY * (SHOT + 1) + number] + b"class%d" % label)
    for number in range(many):
        os.link(drawn[number % len(drawn)], photos.many / f"{number:05d}.jpg")
    return photos
