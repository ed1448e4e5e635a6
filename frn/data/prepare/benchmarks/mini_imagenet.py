"""mini-ImageNet (Vinyals et al., 2016) with Ravi and Larochelle's split: 100 classes with 600 original images each.

Images are named by class and rank: n0153282900000005.jpg is the fifth of ImageNet's training folder n01532829, sorted
by the number in the file name. The data set can therefore be made from ImageNet itself, with the same file names.
"""

import base64
import re
from collections.abc import Iterable

from frn.data.folders import SPLITS
from frn.data.prepare.benchmark import Benchmark, Counts, Item, Plan, read_split, ready_made
from frn.data.prepare.sources import Found, Sources
from frn.errors import FrnError

OFFICIAL: Counts = {"train": (64, 38_400), "val": (16, 9_600), "test": (20, 12_000)}
NAMED = re.compile(r"(n\d{8})(\d{8})\.jpe?g", re.IGNORECASE)
NUMBERED = re.compile(r"(n\d{8})_(\d+)\.jpe?g", re.IGNORECASE)


def plan(sources: Sources, split: str) -> Plan:
    """Assign images to splits.

    The sources are `images.zip` or its folder; ImageNet's class folders, class tars or `ILSVRC2012_img_train.tar`; or
    the authors' `mini-ImageNet.tar`.
    """
    found = sources.files()
    ready = ready_made(found, "mini-ImageNet")
    facts = read_split("mini_imagenet")
    split_of = {label: part for part in SPLITS for label in facts[part]}
    if ready and {item.label for item in ready} <= split_of.keys():
        return Plan(ready, OFFICIAL)
    wanted = list(_listed(facts["images"], split_of))
    named = {file.parts[-1].lower(): file for file in reversed(found) if NAMED.fullmatch(file.parts[-1])}
    by_rank = named or _ranked(found, split_of)
    missing = [name for _, _, name in wanted if name.lower() not in by_rank]
    if missing:
        raise FrnError(
            f"{sources}: {len(missing)} of mini-ImageNet's {len(wanted)} images are missing ({missing[0]}, ...). Pass "
            "images.zip, or its 100 complete class folders from ImageNet's training set."
        )
    return Plan([Item(part, label, name, by_rank[name.lower()]) for part, label, name in wanted], OFFICIAL)


def _listed(masks: dict[str, str], split_of: dict[str, str]) -> Iterable[tuple[str, str, str]]:
    """Return split, class and file name of every image, from the packaged lists."""
    for label, mask in masks.items():
        bits = int.from_bytes(base64.b64decode(mask), "big")
        for index in range(bits.bit_length()):
            if bits >> index & 1:
                yield split_of[label], label, f"{label}{index + 1:08d}.jpg"


def _ranked(found: list[Found], labels: Iterable[str]) -> dict[str, Found]:
    """Return ImageNet's images by the name that their rank gives them."""
    numbered: dict[str, dict[int, Found]] = {label: {} for label in labels}
    for file in found:
        match = NUMBERED.fullmatch(file.parts[-1])
        if match and match[1] in numbered:
            numbered[match[1]].setdefault(int(match[2]), file)
    return {
        f"{label}{rank:08d}.jpg": file
        for label, files in numbered.items()
        for rank, (_, file) in enumerate(sorted(files.items()), start=1)
    }


MINI_IMAGENET = Benchmark(
    plan=plan,
    checksums={
        "images.zip": "987d2dfede486f633ec052ff463b62c6",
        "mini-ImageNet.tar": "13fda464dcd4d283e953bfb6633176b8",
        "ILSVRC2012_img_train.tar": "1d675b47d978889d74fa0da5fadfb00e",
    },
    archives=rf"({'|'.join(read_split('mini_imagenet')['images'])})\.tar|mini-?imagenet\.(zip|tar|tar\.gz|tgz)",
)
