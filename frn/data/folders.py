"""Class folders: a data set is `train/ val/ test/`, a split is one folder per class, a class is its images."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from frn.errors import FrnError
from frn.images.opening import EXTENSIONS
from frn.system.files import is_there

SPLITS = ("train", "val", "test")
SYSTEM_FILES = frozenset({"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"})
"""What file managers leave in a folder of photos, in small letters."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A file that is no image, or none that can be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClassFolders:
    """The image files of every class of one split."""

    root: Path
    names: tuple[str, ...]
    """Class names: the folders' names, sorted."""
    files: tuple[tuple[str, ...], ...]
    """File names of each class, sorted."""
    skipped: tuple[Broken, ...] = ()
    """What else lies there."""

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
        return ClassFolders(self.root, tuple(name for name, _ in kept), tuple(files for _, files in kept), self.skipped)


def scan(root: Path) -> ClassFolders:
    """List the class folders of `root`, and what of them is no image.

    FrnError if `root` is no readable folder, has no class folders, or a class folder has no images.
    """
    loose, folders = _list(root)
    if not folders:
        raise FrnError(f"{root}: has no class folders. It must hold one folder of images per class.")
    skipped = [_left_out(root / name, "it lies in no class folder") for name in loose if looks_like_image(name)]
    odd = [name for name in loose if not looks_like_image(name) and not is_there(root / name)]
    skipped += [_left_out(root / name, "its link leads nowhere") for name in odd]
    files = []
    for name in folders:
        found = list_images(root / name)
        if not found.images:
            raise FrnError(f"{root / name}: has no images ({', '.join(sorted(EXTENSIONS))}). Add some or remove it.")
        files.append(found.images)
        skipped += found.skipped
    return ClassFolders(root, tuple(folders), tuple(files), tuple(skipped))


@dataclass(frozen=True, slots=True)
class FolderImages:
    """What lies directly in one folder; hidden entries and those of file managers do not count."""

    images: tuple[str, ...]
    """Names of the files that look like images, sorted."""
    skipped: tuple[Broken, ...]
    """Every other entry."""


def list_images(folder: Path) -> FolderImages:
    """Look into a folder of images. FrnError if it cannot be listed."""
    files, folders = _list(folder)
    skipped = [_left_out(folder / name, why_skipped(name)) for name in files if not looks_like_image(name)]
    skipped += [_left_out(folder / name, "it is a folder inside a folder of images") for name in folders]
    return FolderImages(tuple(name for name in files if looks_like_image(name)), tuple(skipped))


def looks_like_image(name: str) -> bool:
    """Whether a file is named like an image."""
    return Path(name).suffix.lower() in EXTENSIONS


def why_skipped(name: str) -> str:
    """Why a file is no image, by its name."""
    suffix = Path(name).suffix
    return f"{suffix} is no kind of image that is read" if suffix else "its name has no extension"


def _left_out(path: Path, why: str) -> Broken:
    return Broken(str(path), f"{path}: is left out: {why}")


def _list(folder: Path) -> tuple[list[str], list[str]]:
    """Files and folders in a folder, sorted."""
    files: list[str] = []
    folders: list[str] = []
    try:
        for entry in os.scandir(folder):
            if entry.name[0] != "." and entry.name.lower() not in SYSTEM_FILES:
                (folders if _is_folder(entry) else files).append(entry.name)
    except OSError as error:
        raise FrnError(f"{folder}: cannot be listed ({error.strerror})") from error
    return sorted(files), sorted(folders)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link in a circle, or into a folder that is closed to us: it is told when it is opened
        return False


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
