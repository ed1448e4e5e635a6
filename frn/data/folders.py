"""Data sets: `train/ val/ test/`, each with one folder per class (`frn.projects.folder_tree`)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from frn.errors import FrnError
from frn.projects.folder_tree import SPLIT_NAMES, Broken, TwoLevelsError, class_tree, list_entries, split_named

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, slots=True)
class ClassFolders:
    """The image files of every class of one split."""

    root: Path
    names: tuple[str, ...]  # class names: the folders' names, sorted
    files: tuple[tuple[str, ...], ...]  # images of each class, relative to its folder, sorted
    skipped: tuple[Broken, ...] = ()  # other entries of the folders

    @property
    def members(self) -> dict[str, list[Path]]:
        return {
            name: [self.root / name / file for file in files]
            for name, files in zip(self.names, self.files, strict=True)
        }

    @property
    def paths(self) -> list[Path]:
        return [path for paths in self.members.values() for path in paths]

    def without(self, names: Collection[str]) -> "ClassFolders":
        kept = [(name, files) for name, files in zip(self.names, self.files, strict=True) if name not in names]
        return ClassFolders(self.root, tuple(name for name, _ in kept), tuple(files for _, files in kept), self.skipped)


def scan(root: Path) -> ClassFolders:
    """List the class folders of `root`, a folder or a zip, and the entries in them that are not images.

    Raises FrnError if `root` cannot be read, or has no class folders with images.
    """
    try:
        tree = class_tree(root)
    except TwoLevelsError as error:
        first, second = error.levels
        raise FrnError(
            f"{root}: has two levels of folders ({len(first)} and {len(second)}). A split of a data set has one folder "
            "per class."
        ) from error
    names = sorted(tree.folders)  # the order that decides which episodes a seed draws
    tree.require_classes(root)
    return ClassFolders(tree.root, tuple(names), tuple(tuple(sorted(tree.folders[n])) for n in names), (*tree.skipped,))


def find_splits(data: Path) -> dict[str, Path]:
    """Return the folders of a data set by split; names such as `valid` and `Validation` stand for val.

    Raises FrnError if two folders stand for the same split, or `data` cannot be listed.
    """
    named = {name: split for name in list_entries(data)[1] if (split := split_named(name))}
    plain = {split for name, split in named.items() if name.lower() in SPLIT_NAMES}  # they precede longer names
    splits: dict[str, Path] = {}
    for name, split in named.items():
        if name.lower() not in SPLIT_NAMES and (split in plain or not list_entries(data / name)[1]):
            continue
        if split in splits:
            raise FrnError(
                f"{data}: both {splits[split].name}/ and {name}/ are names of the split {split!r}. Keep one."
            )
        splits[split] = data / name
    return {split: splits[split] for split in SPLITS if split in splits}


def unused_folders(data: Path, used: Collection[Path]) -> list[str]:
    """Return a sentence for each unused folder of a data set."""
    return [f"{data / name}: is ignored" for name in list_entries(data)[1] if data / name not in used]


def shared_classes(splits: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a sentence for each class that is in several splits, from the class names of each split."""
    holders: dict[str, list[str]] = {}
    for split, names in splits.items():
        for name in dict.fromkeys(names):
            holders.setdefault(name, []).append(split)
    return [f"class {name} is in {' and '.join(each)}" for name, each in holders.items() if len(each) > 1]


def split_folder(data: Path, split: str) -> Path:
    """Return the folder of a split. If it is missing, the FrnError lists the content of `data`."""
    if not data.is_dir():
        raise FrnError(f"{data}: no such folder")
    named = data / split
    folder = named if named.is_dir() else find_splits(data).get(split_named(split) or split)
    if folder is None:
        existing = sorted(entry.name for entry in data.iterdir() if entry.is_dir())
        raise FrnError(
            f"{data}: has no folder {split!r} (it has {', '.join(existing[:8]) or 'no folders'}). A data set has "
            "train/, val/ and test/, each with one folder per class; `frn data prepare` makes one."
        )
    return folder
