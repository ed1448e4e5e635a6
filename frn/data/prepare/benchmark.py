"""Benchmark data sets: the sources, the place of each image, and the expected counts."""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files as package_files
from typing import Any

from PIL import Image

from frn.data.folders import SPLITS
from frn.data.prepare.sources import Found, Sources
from frn.errors import FrnError

Counts = dict[str, tuple[int, int | None]]
"""Classes and images (None: not known) of each split; of all together by the name "all"."""


@dataclass(frozen=True, slots=True)
class Item:
    """One image of a data set to be."""

    split: str
    label: str
    """Name of its class folder."""
    file: str
    source: Found
    convert: Callable[[Image.Image], Image.Image] | None = None
    """Conversion before the image is written as PNG; None copies the file."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where every image goes."""

    items: list[Item]
    official: Counts = field(default_factory=dict)
    """Counts of the published benchmark."""
    alike: Counts = field(default_factory=dict)
    """Counts of another release, if its own are not published; differences are reported."""
    skipped: list[str] = field(default_factory=list)
    """Files of a folder of yours that are not images, each with the reason."""
    by: str = ""
    """How a folder of yours was split, in words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """A data set by name."""

    plan: Callable[[Sources, str], Plan]
    """Given the sources and the class split's name."""
    splits: tuple[str, ...] = ("standard",)
    """Names of its class splits; the first is the default."""
    checksums: Mapping[str, str] = field(default_factory=dict)
    """MD5 of the archives that it is made from, by file name."""
    archives: str = r"(?!)"
    """Pattern for the names of further archives to open that lie in a folder."""
    downloads: str = ""
    """Its name in `fetching.downloads`, if torchvision can fetch it."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """Names of all archives to open."""
        return re.compile("|".join([self.archives, *map(re.escape, self.checksums)]), re.IGNORECASE)


def interleaved(index: int) -> str:
    """Split of a class by its number: every second trains, the others validate and test in turn."""
    return "train" if index % 2 == 0 else "val" if index % 4 == 1 else "test"


def read_split(name: str) -> dict[str, Any]:
    """Return the facts of `splits/NAME.toml`."""
    return tomllib.loads((package_files("frn.data") / "splits" / f"{name}.toml").read_text(encoding="utf-8"))


def below(found: list[Found], marker: str) -> dict[str, Found]:
    """Files by their path from the folder that holds the file `marker`; nothing if there is no such file.

    If there are several such folders, the first is taken: loose files come before archives.
    """
    home = next((file.parts[:-1] for file in found if file.parts[-1] == marker), None)
    if home is None:
        return {}
    first: dict[str, Found] = {}
    for file in found:
        if file.parts[: len(home)] == home:
            first.setdefault("/".join(file.parts[len(home) :]), file)
    return first


def lines(file: Found) -> list[str]:
    """Non-empty lines of a text file, stripped."""
    return [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]


Box = tuple[float, float, float, float]


def read_boxes(file: Found, form: str) -> dict[str, Box]:
    """Four numbers of each image, by its name.

    Raises:
        FrnError: if a line has not this form.
    """
    boxes = {}
    for line in lines(file):
        try:
            name, left, upper, right, lower = line.split()
            boxes[name] = (float(left), float(upper), float(right), float(lower))
        except ValueError as error:
            raise FrnError(f"{file.where}: {line!r} is no box ({form})") from error
    return boxes


def ready_made(found: list[Found], *names: str) -> list[Item]:
    """Items of a data set that is already laid out as train/ and test/ of class folders.

    `val_pre`, `test_pre`, `refr` and `query` of the authors' archives are skipped: the evaluation transform resizes,
    and the paper does not use the others. Of several data sets the one that is called by one of `names` is meant.
    """
    homes: dict[tuple[str, ...], dict[tuple[str, ...], Item]] = {}
    for file in found:
        if len(file.parts) > 3 and file.parts[-3] in SPLITS:
            split, label, name = file.parts[-3:]
            homes.setdefault(file.parts[:-3], {}).setdefault(file.parts[-3:], Item(split, label, name, file))
    whole = {
        home: list(f.values()) for home, f in homes.items() if {"train", "test"} <= {item.split for item in f.values()}
    }
    named = [files for home, files in whole.items() if home[-1] in names]
    if named:
        return named[0]
    return next(iter(whole.values())) if len(whole) == 1 and next(iter(whole))[-1] not in AUTHORS_FOLDERS else []


_FINE_GRAINED = {"CUB_fewshot_cropped", "CUB_fewshot_raw", "Aircraft_fewshot", "meta_iNat", "tiered_meta_iNat"}
AUTHORS_FOLDERS = _FINE_GRAINED | {"mini-ImageNet", "tiered-ImageNet", "tiered-ImageNet_DeepEMD", "tiered_imagenet"}
"""Folders of the authors' archives: none of them is taken for another."""
