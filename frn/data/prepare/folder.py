"""Anything of yours: class folders, loose or zipped, already split or not."""

import re
from dataclasses import dataclass

import numpy as np

from frn.data.prepare.benchmark import Item, Plan
from frn.data.prepare.sources import Found, Sources
from frn.errors import FrnError

SPLIT_WORD = re.compile(r"(?:^|[^a-z])(train|val|test)(?:idation|ing)?(?:$|[^a-z])")


@dataclass(frozen=True, slots=True)
class DrawnSplit:
    """How classes are split at random, where folders do not say."""

    val: float = 0.2
    """Share of classes that become the validation split."""
    test: float = 0.2
    seed: int = 0


def plan(sources: Sources, split: DrawnSplit) -> Plan:
    """Assign images to splits by the names above their class folder, else draw classes at random.

    FrnError if an image is in no class folder, or only some images have a split.
    """
    found = sources.images()
    bare = [image for image in found if len(image.parts) < 3]
    if bare:
        raise FrnError(f"{'/'.join(bare[0].parts)}: is in no class folder ({len(bare)} such images)")
    by_name = {image.parts[:-2]: _split_of(image) for image in found}
    named = set(by_name.values()) - {None}
    if named and None in by_name.values():
        without = next("/".join(parts) for parts, split in by_name.items() if split is None)
        raise FrnError(f"{without}: belongs to no split, but other folders do ({', '.join(sorted(map(str, named)))})")
    drawn = {} if named else _draw({image.parts[-2] for image in found}, split)
    return Plan(
        [
            Item(by_name[image.parts[:-2]] or drawn[image.parts[-2]], image.parts[-2], image.parts[-1], image)
            for image in found
        ]
    )


def _split_of(image: Found) -> str | None:
    for part in reversed(image.parts[:-2]):
        if match := SPLIT_WORD.search(part.lower()):
            return match.group(1)
    return None


def _draw(labels: set[str], split: DrawnSplit) -> dict[str, str]:
    if split.val + split.test >= 1:
        raise FrnError(f"--val {split.val:g} and --test {split.test:g} leave no class to train on")
    order = np.random.default_rng(split.seed).permutation(len(labels))
    names = [sorted(labels)[i] for i in order]
    n_val, n_test = round(split.val * len(names)), round(split.test * len(names))
    splits = ["val"] * n_val + ["test"] * n_test + ["train"] * (len(names) - n_val - n_test)
    return dict(zip(names, splits, strict=True))
