"""mini-ImageNet (Vinyals et al., 2016) with Ravi and Larochelle's split: 100 classes with 600 original images each.

The class is the beginning of an image's name: n0153282900000005.jpg is an image of ImageNet's class n01532829.
"""

import re

from frn.data.folders import SPLITS
from frn.data.prepare.benchmark import Benchmark, Counts, Item, Plan, read_split, ready_made
from frn.data.prepare.sources import Sources
from frn.errors import FrnError

OFFICIAL: Counts = {"train": (64, 38_400), "val": (16, 9_600), "test": (20, 12_000)}
NAMED = re.compile(r"(n\d{8})\d{8}\.jpe?g", re.IGNORECASE)


def plan(sources: Sources, split: str) -> Plan:
    """Assign images to splits, from `images.zip` or its folder, or from the authors' `mini-ImageNet.tar`."""
    found = sources.files()
    labels_of = read_split("mini_imagenet")
    split_of = {label: part for part in SPLITS for label in labels_of[part]}
    ready = ready_made(found, "mini-ImageNet")
    if ready and {item.label for item in ready} <= split_of.keys():
        return Plan(ready, OFFICIAL)
    named = {file.parts[-1]: file for file in reversed(found)}
    items = [
        Item(split_of[match[1]], match[1], name, file)
        for name, file in named.items()
        if (match := NAMED.fullmatch(name)) and match[1] in split_of
    ]
    if not items:
        raise FrnError(f"{sources}: has none of mini-ImageNet's images, such as images/n0153282900000005.jpg")
    return Plan(items, OFFICIAL)


MINI_IMAGENET = Benchmark(
    plan=plan,
    checksums={
        "images.zip": "987d2dfede486f633ec052ff463b62c6",
        "mini-ImageNet.tar": "13fda464dcd4d283e953bfb6633176b8",
    },
    archives=r"mini-?imagenet\.(zip|tar|tar\.gz|tgz)",
)
