"""Class folders: a data set is `train/ val/ test/`, a split is one folder per class, a class is its images."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from frn.errors import FrnError
from frn.images import EXTENSIONS

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, slots=True)
class ClassFolders:
    """The image files of every class of one split."""

    root: Path
    names: tuple[str, ...]
    """Class names: the folders' names, sorted."""
    files: tuple[tuple[str, ...], ...]
    """File names of each class, sorted."""

    @property
    def members(self) -> dict[str, list[Path]]:
        """The files of each class."""
        return {
            name: [self.root / name / file for file in files]
            for name, files in zip(self.names, self.files, strict=True)
        }

    @property
    def paths(self) -> list[Path]:
        """Every file, class by class."""
        return [path for paths in self.members.values() for path in paths]

    def without(self, names: Collection[str]) -> "ClassFolders":
        """The other classes."""
        kept = [(name, files) for name, files in zip(self.names, self.files, strict=True) if name not in names]
        return ClassFolders(self.root, tuple(name for name, _ in kept), tuple(files for _, files in kept))


def scan(root: Path) -> ClassFolders:
    """List the class folders of `root`. Hidden entries and files of other kinds are not images.

    FrnError if `root` is no readable folder, has no class folders, or a class folder has no images.
    """
    try:
        folders = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and entry.name[0] != ".")
    except OSError as error:
        raise FrnError(f"{root}: cannot be listed ({error.strerror})") from error
    if not folders:
        raise FrnError(f"{root}: has no class folders. It must hold one folder of images per class.")
    files = tuple(image_files(root / name) for name in folders)
    for name, found in zip(folders, files, strict=True):
        if not found:
            raise FrnError(f"{root / name}: has no images ({', '.join(sorted(EXTENSIONS))}). Add some or remove it.")
    return ClassFolders(root, tuple(folders), files)


def image_files(folder: Path) -> tuple[str, ...]:
    """Names of the files in `folder` that look like images, sorted. FrnError if the folder cannot be listed."""
    try:
        names = (entry.name for entry in os.scandir(folder) if entry.name[0] != "." and not entry.is_dir())
        return tuple(sorted(name for name in names if Path(name).suffix.lower() in EXTENSIONS))
    except OSError as error:
        raise FrnError(f"{folder}: cannot be listed ({error.strerror})") from error


def split_folder(data: Path, split: str) -> Path:
    """Folder of a split of a data set; an FrnError says what `data` holds instead."""
    if not data.is_dir():
        raise FrnError(f"{data}: there is no such folder")
    folder = data / split
    if not folder.is_dir():
        found = sorted(entry.name for entry in data.iterdir() if entry.is_dir())
        raise FrnError(
            f"{data}: has no folder {split!r} (it has {', '.join(found[:8]) or 'no folders'}). A data set holds "
            "train/, val/ and test/, each with one folder per class; `frn data prepare` makes one."
        )
    return folder
