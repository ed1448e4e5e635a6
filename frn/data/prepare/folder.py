"""Your own photos: class folders, loose or zipped, already split or not."""

import re

import numpy as np

from frn.data.folders import SPLITS, shared_classes
from frn.data.prepare.benchmark import Item, Plan
from frn.data.prepare.sources import SourceFile, Sources
from frn.errors import FrnError
from frn.projects.folder_tree import SPLIT_NAMES, spaced

SPLIT_WORD = re.compile(rf"(?:^|[^a-z])({'|'.join(SPLIT_NAMES)})(?:$|[^a-z])")
SHARE = 0.2  # default fraction of the classes for validation, and for test


def plan_own(sources: Sources, val: float | None = None, test: float | None = None) -> Plan:
    """Use the splits that folder names above the class folders define, or draw classes if there are fewer than two.

    If a fraction of the classes is given for validation or test, names are ignored; that of the other is `SHARE`.
    Raises FrnError if an image is not in a class folder, only some images have a split, or none are left for training.
    """
    ignores_names = val is not None or test is not None
    val, test = SHARE if val is None else val, SHARE if test is None else test
    if val + test >= 1:
        raise FrnError(f"--val {val:g} and --test {test:g} leave no class for training")
    images = sources.images()
    bare = [image for image in images if len(image.parts) < 3]
    if bare:
        raise FrnError(f"{'/'.join(bare[0].parts)}: is not in a class folder ({len(bare)} such images)")
    by_name = {} if ignores_names else {image.parts[:-2]: _split_of(image) for image in images}
    named = sorted({part for part in by_name.values() if part is not None})
    if named and None in by_name.values():
        without = next("/".join(parts) for parts, part in by_name.items() if part is None)
        raise FrnError(
            f"{without}: is not in a split, but other images are ({', '.join(named)}). Rename it, or split the "
            "classes with --val and --test."
        )
    if len(named) > 1:
        parts = [by_name[image.parts[:-2]] for image in images]
        by = f"by folder names: {', '.join(named)}"
    else:
        sampled = _draw({image.parts[-2] for image in images}, val, test)
        parts = [sampled[image.parts[-2]] for image in images]
        by = f"at random: --val {val:g} --test {test:g}"
    named_in: dict[str, set[str]] = {}
    for part, image in zip(parts, images, strict=True):
        named_in.setdefault(str(part), set()).add(image.parts[-2])
    if shared := shared_classes({part: sorted(named_in[part]) for part in SPLITS if part in named_in}):
        raise FrnError(
            f"{shared[0]} ({len(shared)} such classes), but a few-shot test needs classes that training has not seen. "
            "Split the classes with --val and --test."
        )
    items = [
        Item(str(part), image.parts[-2], image.parts[-1], image) for part, image in zip(parts, images, strict=True)
    ]
    return Plan(items, skipped=sources.skipped(), by=by)


def _split_of(image: SourceFile) -> str | None:
    for part in reversed(image.parts[:-2]):
        if match := SPLIT_WORD.search(spaced(part)):
            return SPLIT_NAMES[match.group(1)]
    return None


def _draw(labels: set[str], val: float, test: float) -> dict[str, str]:
    order = np.random.default_rng(0).permutation(len(labels))
    names = [sorted(labels)[i] for i in order]
    n_val, n_test = round(val * len(names)), round(test * len(names))
    splits = ["val"] * n_val + ["test"] * n_test + ["train"] * (len(names) - n_val - n_test)
    return dict(zip(names, splits, strict=True))
