"""Class folders: a data set is `train/ val/ test/`, a split is one folder per class, a class is its images."""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from frn.data.names import normal
from frn.errors import FrnError
from frn.images.boxes import split_box
from frn.images.kinds import RAW, RAW_NAMES
from frn.images.opening import EXTENSIONS
from frn.system.archives import find_zip
from frn.system.caches import TAG
from frn.system.files import is_folder, is_there

SPLITS = ("train", "val", "test")
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "vld", "dev", "development"), "val"),
    **dict.fromkeys(("test", "testing", "tests", "tst"), "test"),
}
"""Folder names in lower case, mapped to their splits."""
BESIDE_SPLIT = frozenset(
    {"set", "data", "dataset", "image", "images", "img", "imgs", "photo", "photos", "split", "meta", "seg"}
)
"""Words that may appear next to the name of a split."""
SYSTEM_FOLDERS = frozenset(
    {*("__macosx", "@eadir", "@recycle", "@recently-snapshot", "@tmp", "#recycle", "#snapshot"),
     *("$recycle.bin", "system volume information", "lost+found", "found.000", "lost.dir", "__pycache__")}
)  # fmt: skip
"""System and server folders to ignore, in lower case; names that begin with a dot are also ignored."""
SYSTEM_FILES = frozenset({"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"})
"""Files that file managers leave in a folder of photos, in lower case."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A file that is not an image or cannot be read, and the reason."""

    path: str
    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class ClassFolders:
    """The image files of every class of one split."""

    root: Path
    names: tuple[str, ...]
    """Class names: the folders' names, sorted."""
    files: tuple[tuple[str, ...], ...]
    """File names of each class, sorted."""
    skipped: tuple[Broken, ...] = ()
    """Other entries of the folders."""

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
        """Return the split without these classes."""
        kept = [(name, files) for name, files in zip(self.names, self.files, strict=True) if name not in names]
        return ClassFolders(self.root, tuple(name for name, _ in kept), tuple(files for _, files in kept), self.skipped)


def scan(root: Path) -> ClassFolders:
    """List the class folders of `root`, a folder or a zip, and the entries in them that are not images.

    Raises FrnError if `root` cannot be read, has no class folders, or a class folder has no images.
    """
    loose, folders = _list(root)
    while find_zip(root) and not loose and len(folders) == 1 and _list(root / folders[0])[1]:
        root /= folders[0]  # a zip often holds one folder with everything
        loose, folders = _list(root)
    photos = [name for name in loose if looks_like_image(name)]
    if not folders:
        own = f" Move its {len(photos)} photos into such folders." if photos else ""
        raise FrnError(f"{root}: has no class folders. It must contain one folder of images per class.{own}")
    splits = [name for name in folders if split_named(name)]
    listed = ", ".join(str(root / name) for name in splits)
    are_splits = f"{root}: contains the splits of a data set, not classes. Choose one of them: {listed}"
    if len(folders) > 1 and all(name.lower() in SPLIT_NAMES for name in folders):
        raise FrnError(are_splits)
    _refuse_twins(root, folders)
    skipped = [_left_out(root / name, "it is not in a class folder") for name in photos]
    odd = [name for name in loose if not looks_like_image(name) and not is_there(root / name)]
    skipped += [_left_out(root / name, "it is a broken link") for name in odd]
    files = []
    for name in folders:
        images, others = list_images(root / name)
        if not images:
            raise FrnError(are_splits if len(set(map(split_named, splits))) > 1 else _why_empty(root, name, others))
        files.append(tuple(images))
        skipped += others
    return ClassFolders(root, tuple(folders), tuple(files), tuple(skipped))


def _refuse_twins(root: Path, names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if (twin := seen.setdefault(normal(name).strip(), name)) is not name:
            raise FrnError(
                f"{root}: has two folders named {normal(name).strip()!r}, which differ only in whitespace or in how "
                f"their letters are encoded ({twin!a} and {name!a}). Move their photos into one."
            )


def _why_empty(root: Path, name: str, others: list[Broken]) -> str:
    """Describe the content of a class folder without photos, and say what to do."""
    folder = root / name
    if not others:
        return f"{folder}: is empty. Put photos of this class in it, or remove the folder."
    if deepest := next((path for path, _, files in os.walk(folder) if any(map(looks_like_image, files))), None):
        return (
            f"{folder}: has no photos itself; they are in {deepest}. Pass the folder that contains the class folders, "
            f"or move the photos into {name!r} itself."
        )
    return (
        f"{folder}: has no readable photos ({', '.join(sorted(EXTENSIONS))}). "
        f"It has {len(others)} other files; the first: {others[0].reason}"
    )


def list_images(folder: Path) -> tuple[list[str], list[Broken]]:
    """Return the names of the files in a folder that look like images, sorted, and every other entry.

    Entries that `is_ignored` are in neither list. Raises FrnError if the folder cannot be listed.
    """
    files, folders = _list(folder)
    skipped = [_left_out(folder / name, why_skipped(name)) for name in files if not looks_like_image(name)]
    skipped += [_left_out(folder / name, "it is a folder inside a folder of images") for name in folders]
    return list(filter(looks_like_image, files)), skipped


def is_of_the_system(name: str) -> bool:
    """Return whether an entry is hidden, or left by a system or file manager: thumbnails, recycle bins."""
    return name.startswith(".") or name.lower() in SYSTEM_FILES or name.lower() in SYSTEM_FOLDERS


def is_ignored(entry: "os.DirEntry[str]") -> bool:
    """Return whether an entry belongs to the system (`is_of_the_system`), or is marked as a program's cache."""
    return is_of_the_system(entry.name) or is_there(Path(entry.path, TAG))  # https://bford.info/cachedir


def looks_like_image(name: str) -> bool:
    """Return whether a file name looks like that of an image, or of a box of one."""
    return split_box(name)[0].suffix.lower() in EXTENSIONS


def why_skipped(name: str) -> str:
    """Return the reason why a file is not an image, judging by its name."""
    suffix = Path(name).suffix
    if suffix.lower() in RAW_NAMES:
        return f"it is {RAW}"
    return f"{suffix} is not a supported image format" if suffix else "its name has no extension"


def _left_out(path: Path, why: str) -> Broken:
    return Broken(str(path), f"{path}: is skipped: {why}")


def _list(folder: Path) -> tuple[list[str], list[str]]:
    """List the files and folders in a folder, sorted, without those of the system and without caches."""
    files: list[str] = []
    folders: list[str] = []
    if inside := find_zip(folder):
        zipped, parts = inside
        for name in zipped.folders.get(parts, ()):
            if not is_of_the_system(name):
                (folders if (*parts, name) in zipped.folders else files).append(name)
        return sorted(files), sorted(folders)
    try:
        for entry in os.scandir(folder):
            if not is_ignored(entry):
                (folders if is_folder(entry.path) else files).append(entry.name)
    except OSError as error:
        raise FrnError(f"{folder}: cannot be listed ({error.strerror})") from error
    return sorted(files), sorted(folders)


def find_splits(data: Path) -> dict[str, Path]:
    """Return the folders of a data set by split; names such as `valid` and `Validation` stand for val.

    Raises FrnError if two folders stand for the same split, or `data` cannot be listed.
    """
    named = {name: split for name in _list(data)[1] if (split := split_named(name))}
    plain = {split for name, split in named.items() if name.lower() in SPLIT_NAMES}  # they precede longer names
    found: dict[str, Path] = {}
    for name, split in named.items():
        if name.lower() not in SPLIT_NAMES and (split in plain or not _list(data / name)[1]):
            continue
        if split in found:
            raise FrnError(f"{data}: both {found[split].name}/ and {name}/ are names of the split {split!r}. Keep one.")
        found[split] = data / name
    return {split: found[split] for split in SPLITS if split in found}


def split_named(name: str) -> str | None:
    """Return the split that a folder name stands for, such as `val` for `Validation` and `valid_set`, or None."""
    found = [word for word in re.findall(r"[^\W\d_]+", spaced(name)) if word not in BESIDE_SPLIT]
    return SPLIT_NAMES.get(found[0]) if len(found) == 1 else None


def spaced(name: str) -> str:
    """Return a name in lower case, with spaces between the words of CamelCase."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower()


def unused_folders(data: Path, used: Collection[Path]) -> list[str]:
    """Return a sentence for each unused folder of a data set."""
    return [f"{data / name}: is ignored" for name in _list(data)[1] if data / name not in used]


def shared_classes(splits: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a sentence for each class that is in several splits, from the class names of each split."""
    found: dict[str, list[str]] = {}
    for split, names in splits.items():
        for name in dict.fromkeys(names):
            found.setdefault(name, []).append(split)
    return [f"class {name} is in {' and '.join(each)}" for name, each in found.items() if len(each) > 1]


def split_folder(data: Path, split: str) -> Path:
    """Return the folder of a split. If it is missing, the FrnError lists the content of `data`."""
    if not data.is_dir():
        raise FrnError(f"{data}: no such folder")
    named = data / split
    folder = named if named.is_dir() else find_splits(data).get(split_named(split) or split)
    if folder is None:
        found = sorted(entry.name for entry in data.iterdir() if entry.is_dir())
        raise FrnError(
            f"{data}: has no folder {split!r} (it has {', '.join(found[:8]) or 'no folders'}). A data set has train/, "
            "val/ and test/, each with one folder per class; `frn data prepare` makes one."
        )
    return folder
