"""Benchmark data sets: their sources, the split and class of each image, and the expected counts."""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files as package_files

from frn.data.folders import SPLITS
from frn.data.prepare.sources import Found, Sources
from frn.errors import FrnError

Box = tuple[float, float, float, float]
"""Left, upper, right and lower, in pixels as stored."""
Counts = dict[str, tuple[int, int | None]]
"""Classes and images (None: unknown) of each split; "all" is their sum."""


@dataclass(frozen=True, slots=True)
class Item:
    """An image of the new data set."""

    split: str
    label: str
    """Name of the class folder."""
    file: str
    source: Found
    box: Box | None = None
    """Part that is written as PNG; None copies the file."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The place of every image."""

    items: list[Item]
    official: Counts = field(default_factory=dict)
    """Counts of the published benchmark."""
    skipped: list[str] = field(default_factory=list)
    """Files of your folder that are not images, each with the reason."""
    by: str = ""
    """Description of how your folder was split."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """A named data set."""

    plan: Callable[[Sources, str], Plan]
    """Function of the sources and the name of the class split."""
    splits: tuple[str, ...] = ("standard",)
    """Names of the class splits; the first is the default."""
    checksums: Mapping[str, str] = field(default_factory=dict)
    """MD5 of the original archives, by file name."""
    archives: str = r"(?!)"
    """Pattern that matches the names of other archives to open in the same folder."""
    url: str = ""
    """Address of an archive that `--download` fetches."""
    mebibytes: int = 0
    """Size of that archive."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """Pattern of the names of all archives to open."""
        return re.compile("|".join([self.archives, *map(re.escape, self.checksums)]), re.IGNORECASE)


def interleaved(index: int) -> str:
    """Return the split of a class by its number: train if even, alternately validation and test if odd."""
    return "train" if index % 2 == 0 else "val" if index % 4 == 1 else "test"


def read_split(name: str) -> dict[str, str]:
    """Return the split of each class in `splits/NAME.toml`."""
    labels = tomllib.loads((package_files("frn.data") / "splits" / f"{name}.toml").read_text(encoding="utf-8"))
    return {label: part for part in SPLITS for label in labels[part]}


def below(found: list[Found], marker: str) -> dict[str, Found]:
    """Return files by their path relative to the folder of the file `marker`; empty if there is no such file.

    If there are several such folders, the first is used: loose files come before archives.
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
    """Return the non-empty lines of a text file, stripped."""
    return [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]


def read_boxes(file: Found, form: str) -> dict[str, Box]:
    """Return four numbers per image, by its name. Raises FrnError if a line has a different format."""
    boxes = {}
    for line in lines(file):
        try:
            name, left, upper, right, lower = line.split()
            boxes[name] = (float(left), float(upper), float(right), float(lower))
        except ValueError as error:
            raise FrnError(f"{file.where}: {line!r} is not a box ({form})") from error
    return boxes


def ready_made(found: list[Found], *names: str) -> list[Item]:
    """Return the items of the authors' folder with one of the names, laid out as train/ and test/ of class folders.

    Its `val_pre`, `test_pre`, `refr` and `query` are skipped: the evaluation transform resizes, and the paper does not
    use the others. The first folder that has both train/ and test/ is used.
    """
    homes: dict[tuple[str, ...], dict[tuple[str, ...], Item]] = {}
    for file in found:
        if len(file.parts) > 3 and file.parts[-4] in names and file.parts[-3] in SPLITS:
            split, label, name = file.parts[-3:]
            homes.setdefault(file.parts[:-3], {}).setdefault(file.parts[-3:], Item(split, label, name, file))
    items = (list(files.values()) for files in homes.values())
    return next((files for files in items if {"train", "test"} <= {item.split for item in files}), [])
