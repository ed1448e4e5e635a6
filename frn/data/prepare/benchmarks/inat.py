"""meta-iNat and tiered meta-iNat (Wertheimer and Hariharan, CVPR 2019), from iNaturalist 2017's boxed images.

A class is a category with 50 to 1000 boxed images, named by its id. Every image is resized to 84 x 84, ignoring its
aspect ratio. Neither benchmark has a validation split.
"""

import json
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from frn.data.prepare.benchmark import Benchmark, Counts, Item, Plan, read_split, ready_made
from frn.data.prepare.sources import Found, Sources
from frn.data.prepare.stored_images import squash
from frn.errors import FrnError

SIDE = 84
SIZES = range(50, 1001)
ANNOTATIONS = "train_2017_bboxes.json"
MAX_ANNOTATIONS = 2 << 30
ALL = (1135, 243_986)
META: Counts = {"train": (908, None), "test": (227, None), "all": ALL}
TIERED: Counts = {"train": (781, None), "test": (354, None), "all": ALL}
FOLDERS = ("meta_iNat", "tiered_meta_iNat")


def plan(sources: Sources, split: str, *, tiered: bool) -> Plan:
    """Assign animals to splits, by super-category if `tiered`, else at random.

    The sources are `train_2017_bboxes.zip` and `train_val_images.tar.gz`, or their unpacked contents; or the authors'
    `meta_inat.tar`.
    """
    official = TIERED if tiered else META
    found = sources.files()
    ready = ready_made(found, FOLDERS[tiered])
    if ready:
        return Plan(ready, official)
    file = next((file for file in found if file.parts[-1] == ANNOTATIONS), None)
    if file is None:
        raise FrnError(
            f"{sources}: has no {ANNOTATIONS}; pass the image archive and this file, each with its own --source"
        )
    try:
        everything = json.loads(file.read(MAX_ANNOTATIONS))
        images_of = _images_by_category(everything)
        split_of = _tiered_split(everything) if tiered else dict.fromkeys(read_split("meta_inat")["test"], "test")
        name_of = {image["id"]: str(image["file_name"]) for image in everything["images"]}
        wanted = [(category, name_of[image]) for category, images in images_of.items() for image in sorted(images)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FrnError(
            f"{file.where}: is not the box file of iNaturalist 2017 ({type(error).__name__}: {error})"
        ) from error
    files = _by_name(found)
    missing = [name for _, name in wanted if name not in files]
    if missing:
        raise FrnError(
            f"{sources}: {len(missing)} of {len(wanted)} images are missing ({missing[0]}, ...). They are in "
            "train_val_images.tar.gz."
        )
    items = []
    for category, name in wanted:
        part, file_name = split_of.get(category, "train"), f"{PurePosixPath(name).stem}.png"
        items.append(Item(part, str(category), file_name, files[name], partial(squash, SIDE)))
    return Plan(items, official)


def _images_by_category(everything: dict[str, Any]) -> dict[int, set[int]]:
    images_of: dict[int, set[int]] = {}
    for box in everything["annotations"]:
        images_of.setdefault(int(box["category_id"]), set()).add(box["image_id"])
    return {category: images for category, images in images_of.items() if len(images) in SIZES}


def _tiered_split(everything: dict[str, Any]) -> dict[int, str]:
    tested = read_split("meta_inat")["tiered_test"]
    return {int(entry["id"]): "test" for entry in everything["categories"] if entry["supercategory"] in tested}


def _by_name(found: list[Found]) -> dict[str, Found]:
    """Return the images by their name in the annotations, which is the path starting at `train_val_images`."""
    files: dict[str, Found] = {}
    for file in found:
        if "train_val_images" in file.parts:
            last = len(file.parts) - 1 - file.parts[::-1].index("train_val_images")
            files.setdefault("/".join(file.parts[last:]), file)
    return files


CHECKSUMS = {
    "train_val_images.tar.gz": "7c784ea5e424efaec655bd392f87301f",
    "train_2017_bboxes.zip": "761c954e69bf23d87c5d0d0c68d79bd5",
    "meta_inat.tar": "335e4818995a615b0b5b7b2fc7665e24",
}
META_INAT = Benchmark(plan=partial(plan, tiered=False), checksums=CHECKSUMS)
TIERED_META_INAT = Benchmark(plan=partial(plan, tiered=True), checksums=CHECKSUMS)
