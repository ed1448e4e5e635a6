"""Benchmark data sets: their sources, the split and class of each image, and the expected counts."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from frn.data.prepare.sources import SourceFile, Sources

Box = tuple[float, float, float, float]  # left, upper, right and lower, in pixels as stored
Counts = dict[str, tuple[int, int | None]]  # classes and images (None: unknown) of each split; "all" is their sum


@dataclass(frozen=True, slots=True)
class Item:
    """A photo of a prepared data set."""

    split: str
    label: str  # name of the class folder
    file: str
    source: SourceFile
    box: Box | None = None  # part that is written as PNG; None copies the file


@dataclass(frozen=True, slots=True)
class Plan:
    """Which photos a prepared data set will have, and where each comes from."""

    items: list[Item]
    official: Counts = field(default_factory=dict)  # counts of the published benchmark
    skipped: list[str] = field(default_factory=list)  # files of your folder that are not images, each with the reason
    by: str = ""  # description of how your folder was split


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """A named data set."""

    plan: Callable[[Sources, str], Plan]  # function of the sources and the name of the class split
    splits: tuple[str, ...] = ("standard",)  # names of the class splits; the first is the default
    checksums: Mapping[str, str] = field(default_factory=dict)  # MD5 of the original archives, by file name
    archives: str = r"(?!)"  # pattern that matches the names of other archives to open in the same folder

    @property
    def pattern(self) -> re.Pattern[str]:
        """Pattern of the names of all archives to open."""
        return re.compile("|".join([self.archives, *map(re.escape, self.checksums)]), re.IGNORECASE)
