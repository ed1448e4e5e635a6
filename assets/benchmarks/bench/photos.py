"""Photos for timing, and classes drawn from data sets."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from frn.data.folders import scan
from frn.data.pixel_cache import StoredImages
from frn.data.synthetic import draw_moth, species
from frn.errors import FrnError
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform, limit_shorter_side

Classes = dict[str, list[Path]]  # the photos of each class
SIDE = 256  # pixels of a rendered photo


def timed_classes(way: int, each: int, drawn_into: Path) -> Classes:
    """Render classes of photos into an empty folder.

    Timings do not depend on what a photo shows, so one photo per class is rendered and used repeatedly.
    """
    sampled: Classes = {}
    for number in range(way):
        path = drawn_into / f"{number}.jpg"
        draw_moth(species(number), np.random.default_rng(number), SIDE).save(path, quality=90)
        sampled[path.stem] = [path] * each
    return sampled


def in_memory(classes: Classes, transform: EvaluationTransform | int) -> StoredImages:
    """Return the pixels of the photos in the form in which the cache of decoded images stores them."""
    decoded = {}
    for path in {path for files in classes.values() for path in files}:
        image = open_image(path)
        decoded[path] = limit_shorter_side(image, transform) if isinstance(transform, int) else transform(image)
    images = [decoded[path] for files in classes.values() for path in files]
    heights, widths = (np.array([image.shape[axis] for image in images], dtype=np.int64) for axis in (0, 1))
    sizes = tuple(len(files) for files in classes.values())
    return StoredImages(tuple(classes), sizes, heights, widths, np.concatenate([i.reshape(-1) for i in images]), ())


def pooled_classes(roots: Sequence[Path]) -> Classes:
    """Collect the classes of several folders; the name of each class contains its folder."""
    folders = [scan(root) for root in roots]
    return {f"{number} {name}": files for number, f in enumerate(folders) for name, files in f.members.items()}


def draw_classes(classes: Mapping[str, Sequence[Path]], count: int, photos: int, seed: int, *, least: int) -> Classes:
    """Draw classes that have at least `least` photos, and up to `photos` photos from each, in random order.

    Raises FrnError if there are too few classes.
    """
    large = sorted(name for name, files in classes.items() if len(files) >= least)
    if len(large) < count:
        raise FrnError(
            f"{count} classes of {least} photos or more are needed, but there are {len(large)}. Add folders."
        )
    generator = np.random.default_rng(seed)
    drawn: Classes = {}
    for name in generator.permutation(large)[:count].tolist():
        files = classes[name]
        drawn[name] = [files[index] for index in sorted(generator.permutation(len(files))[:photos])]
    return drawn
