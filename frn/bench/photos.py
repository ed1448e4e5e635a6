"""Photos to time on: a data set's own, or drawn ones."""

from itertools import cycle, islice
from pathlib import Path

import numpy as np

from frn.bench.pools import Classes, draw_classes, pooled_classes
from frn.data.pixel_cache import StoredImages
from frn.data.synthetic import draw_moth, species
from frn.images.opening import EvaluationTransform, limit_shorter_side, open_image

SIDE = 256
"""Pixels of a drawn photo."""


def timed_classes(data: Path | None, way: int, each: int, drawn_into: Path) -> Classes:
    """So many classes of so many photos each: of a folder of class folders, or drawn into an empty one.

    How long a photo takes does not hang on what it shows: of each class one is drawn, and taken again and again; and so
    are those of a class that has too few. FrnError if the folder has too few classes.
    """
    if data is not None:
        classes = draw_classes(pooled_classes([data]), way, each, seed=0, least=1)
        return {name: list(islice(cycle(files), each)) for name, files in classes.items()}
    drawn: Classes = {}
    for number in range(way):
        path = drawn_into / f"{number}.jpg"
        draw_moth(species(number), np.random.default_rng(number), SIDE).save(path, quality=90)
        drawn[path.stem] = [path] * each
    return drawn


def in_memory(classes: Classes, transform: EvaluationTransform | int) -> StoredImages:
    """Their pixels, as the cache of decoded images has them."""
    decoded = {}
    for path in {path for files in classes.values() for path in files}:
        image = open_image(path)
        decoded[path] = limit_shorter_side(image, transform) if isinstance(transform, int) else transform(image)
    images = [decoded[path] for files in classes.values() for path in files]
    heights, widths = (np.array([image.shape[axis] for image in images], dtype=np.int64) for axis in (0, 1))
    sizes = tuple(len(files) for files in classes.values())
    return StoredImages(tuple(classes), sizes, heights, widths, np.concatenate([i.reshape(-1) for i in images]), ())
