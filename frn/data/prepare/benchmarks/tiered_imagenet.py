"""tiered-ImageNet (Ren et al., ICLR 2018): 608 ImageNet classes in 34 groups; no group is in two splits.

`tiered-imagenet` is the original release at 84 x 84, pickles of PNG files; `tiered-imagenet-224` is DeepEMD's release
of class folders.
"""

import io
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from frn.data.folders import SPLITS
from frn.data.prepare.benchmark import Benchmark, Counts, Item, Plan, ready_made
from frn.data.prepare.pickles import load_arrays
from frn.data.prepare.sources import Found, Sources
from frn.data.prepare.stored_images import PNG_START
from frn.errors import FrnError

OFFICIAL: Counts = {"train": (351, 448_695), "val": (97, 124_261), "test": (160, 206_209)}
"""Counts of Ren et al.; DeepEMD's release has the same classes, but its number of images was not published."""
CLASSES: Counts = {part: (classes, None) for part, (classes, _) in OFFICIAL.items()}


def plan(sources: Sources, split: str) -> Plan:
    """Assign images to splits as GROUP_CLASS/PLACE.png, with the place in the pickle, as in the authors' code.

    The sources are `tiered-imagenet.tar` or its folder, or the authors' `tiered-ImageNet.tar`. The pickle of a split
    stays in memory while its images are written: 6 GB for training.
    """
    found = sources.files()
    ready = ready_made(found, "tiered-ImageNet")
    if ready:
        return Plan(ready, OFFICIAL)
    files = {file.parts[-1]: file for file in reversed(found)}
    needed = [f"{part}_{what}.pkl" for part in SPLITS for what in ("images_png", "labels")]
    absent = [name for name in needed if name not in files]
    if absent:
        raise FrnError(f"{sources}: has no {' or '.join(absent)}")
    load = lru_cache(maxsize=1)(_load)  # one split's images at a time
    items = []
    for place, part in enumerate(SPLITS):
        pictures = files[f"{part}_images_png.pkl"]
        for index, label in enumerate(_labels(files[f"{part}_labels.pkl"])):
            where = f"{pictures.where}[{index}]"
            read = partial(_picture, load, pictures, index, where)
            items.append(Item(part, label, f"{index}.png", Found(pictures.parts, -1, read, where, (place, index))))
    return Plan(items, OFFICIAL)


def _load(file: Found) -> Any:
    with file.open() as stream:
        return load_arrays(stream, file.where)


def _labels(file: Found) -> list[str]:
    """Return GROUP_CLASS of every image; Python 2 wrote the keys as bytes."""
    loaded = _load(file)
    try:
        columns = [loaded.get(key, loaded.get(key.encode())) for key in ("label_general", "label_specific")]
        return [f"{int(general)}_{int(specific)}" for general, specific in zip(*columns, strict=True)]
    except (AttributeError, TypeError, ValueError) as error:
        raise FrnError(f"{file.where}: has no label_general and label_specific of equal length ({error})") from error


def _picture(load: Callable[[Found], Any], file: Found, index: int, where: str) -> io.BytesIO:
    """Return one PNG file of the list unchanged; the authors decode and encode it, with the same pixels."""
    pictures = load(file)
    if not isinstance(pictures, list | np.ndarray) or index >= len(pictures):
        raise FrnError(f"{file.where}: is not a list of images, or has fewer images than labels")
    data = bytes(pictures[index]) if isinstance(pictures[index], bytes) else np.asarray(pictures[index]).tobytes()
    if not data.startswith(PNG_START):
        raise FrnError(f"{where}: is not a PNG file")
    return io.BytesIO(data)


def plan_class_folders(sources: Sources, split: str) -> Plan:
    """Use the class folders of `tiered_imagenet.tar` or the authors' `tiered-ImageNet_DeepEMD.tar` unchanged."""
    ready = ready_made(sources.files(), "tiered_imagenet", "tiered-ImageNet_DeepEMD")
    if not ready:
        raise FrnError(
            f"{sources}: has no train/, val/ and test/ folders of classes, as in DeepEMD's tiered_imagenet.tar"
        )
    return Plan(ready, CLASSES, alike=OFFICIAL)


TIERED_IMAGENET = Benchmark(
    plan=plan,
    checksums={
        "tiered-imagenet.tar": "e07e811b9f29362d159a9edd0d838c62",
        "tiered-ImageNet.tar": "d127a0635b02446c120f2bd6036832c7",
    },
)
TIERED_IMAGENET_224 = Benchmark(
    plan=plan_class_folders,
    checksums={
        "tiered_imagenet.tar": "7828a6dc2889e226ba575d2ba9624753",
        "tiered-ImageNet_DeepEMD.tar": "1527ba3454a8d28b5ded2fe6df12e82c",
    },
)
