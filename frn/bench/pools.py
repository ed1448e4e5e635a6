"""Classes to measure on, drawn at random from folders of class folders."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from frn.data.folders import scan
from frn.errors import FrnError

Classes = dict[str, list[Path]]
"""The photos of each class."""


def pooled_classes(roots: Sequence[Path]) -> Classes:
    """The classes of several folders, by names that tell the folders apart."""
    folders = [scan(root) for root in roots]
    return {f"{number} {name}": files for number, f in enumerate(folders) for name, files in f.members.items()}


def draw_classes(classes: Mapping[str, Sequence[Path]], count: int, photos: int, seed: int, *, least: int) -> Classes:
    """Draw so many classes of at least `least` photos, with at most `photos` each, in random order.

    FrnError if there are too few.
    """
    large = sorted(name for name, files in classes.items() if len(files) >= least)
    if len(large) < count:
        raise FrnError(
            f"{count} classes of {least} photos or more are needed, but there are {len(large)}. Add folders."
        )
    generator = np.random.default_rng(seed)
    sampled: Classes = {}
    for name in generator.permutation(large)[:count].tolist():
        files = classes[name]
        sampled[name] = [files[index] for index in sorted(generator.permutation(len(files))[:photos])]
    return sampled


def link_classes(classes: Mapping[str, Sequence[Path]], home: Path) -> None:
    """Make a folder of class folders whose photos are links."""
    for name, files in classes.items():
        (home / name).mkdir(parents=True)
        for file in files:
            (home / name / file.name).symlink_to(file.resolve())
