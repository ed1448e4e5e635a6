"""CUB-200-2011 (Wah et al., 2011): 200 birds, cropped to their boxes (`cub-cropped`) or whole (`cub-raw`).

The number of a class determines its split. `tang` is the paper's (even numbers train). `chen` is that of "A Closer
Look at Few-shot Classification": the same rule counted from 0, so the two share no training class. `all` tests on every
class, for models trained elsewhere. The official split by image is not used.
"""

from functools import partial
from pathlib import PurePosixPath

from frn.data.prepare.benchmark import (
    Benchmark,
    Box,
    Counts,
    Item,
    Plan,
    below,
    interleaved,
    lines,
    read_boxes,
    ready_made,
)
from frn.data.prepare.sources import Found, Sources
from frn.errors import FrnError

IMAGES = 11_788
THIRDS: Counts = {"train": (100, None), "val": (50, None), "test": (50, None), "all": (200, IMAGES)}
RAW, CROPPED = "CUB_fewshot_raw", "CUB_fewshot_cropped"
ARCHIVE = {"CUB_200_2011.tgz": "97eceeb196236b17998738112f37df78"}


def plan(sources: Sources, split: str, *, cropped: bool) -> Plan:
    """Assign birds to splits, from `CUB_200_2011.tgz` or its folder, or the authors' `CUB_fewshot_*.tar`."""
    official: Counts = {"test": (200, IMAGES)} if split == "all" else THIRDS
    found = sources.files()
    ready = ready_made(found, CROPPED if cropped else RAW)
    if ready:
        return Plan([_item(split, item.label, item.file, item.source) for item in ready], official)
    files = below(found, "images.txt")
    if not files:
        raise FrnError(f"{sources}: has neither CUB's images.txt nor train/ and test/ folders of classes")
    paths = dict(line.split(maxsplit=1) for line in lines(files["images.txt"]))
    boxes = _boxes(files, sources) if cropped else {}
    whole = boxes.keys() if cropped else paths.keys()
    missing = [path for number, path in paths.items() if f"images/{path}" not in files or number not in whole]
    if missing:
        raise FrnError(
            f"{sources}: {len(missing)} of the {len(paths)} images in images.txt are missing or have no box "
            f"({missing[0]}, ...)"
        )
    items = []
    for number, path in paths.items():
        file = files[f"images/{path}"]
        name = f"{PurePosixPath(path).stem}.png" if cropped else file.parts[-1]
        items.append(_item(split, file.parts[-2], name, file, boxes.get(number)))
    return Plan(items, official)


def _item(split: str, label: str, name: str, file: Found, box: Box | None = None) -> Item:
    number = label.partition(".")[0]
    if not number.isdecimal():
        raise FrnError(f"{file.where}: CUB's class folders start with a number, such as 001.Black_footed_Albatross")
    index = int(number) - (split == "chen")
    return Item("test" if split == "all" else interleaved(index), label, name, file, box)


def _boxes(files: dict[str, Found], sources: Sources) -> dict[str, Box]:
    if "bounding_boxes.txt" not in files:
        raise FrnError(f"{sources}: has no bounding_boxes.txt. `frn data prepare cub-raw` does not need them.")
    boxes = read_boxes(files["bounding_boxes.txt"], "id x y width height")
    return {number: (x, y, x + width, y + height) for number, (x, y, width, height) in boxes.items()}


CUB_CROPPED = Benchmark(
    plan=partial(plan, cropped=True),
    splits=("tang", "chen", "all"),
    checksums=ARCHIVE | {f"{CROPPED}.tar": "3f74dd5afdf8b38559bf1c303a16075f"},
)
CUB_RAW = Benchmark(
    plan=partial(plan, cropped=False),
    splits=("tang", "chen", "all"),
    checksums=ARCHIVE | {f"{RAW}.tar": "914db78ae781778d04d321ad9e9c19da"},
)
