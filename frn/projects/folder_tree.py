"""Folders and zips of photos: what is in them, and which of their folders are classes.

A class is a folder with all photos below it. If a folder holds nothing but one folder of class folders, that one
counts: a zip often has one folder at its top.
"""

import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from frn.errors import FrnError
from frn.images.boxes import split_box
from frn.images.kinds import EXTENSIONS, RAW, RAW_NAMES
from frn.projects.names import natural_order, normal
from frn.system.archives import find_zip
from frn.system.caches import TAG
from frn.system.files import is_folder, is_there

SPLIT_NAMES = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "vld", "dev", "development"), "val"),
    **dict.fromkeys(("test", "testing", "tests", "tst"), "test"),
}
"""Folder names in lower case, mapped to their splits."""
GENERIC = frozenset(
    {"set", "data", "dataset", "image", "images", "img", "imgs", "photo", "photos", "split", "meta", "seg"}
)
"""Words in folder names that name neither a class nor a split."""
SESSION = GENERIC | {"session", "day", "batch", "roll", "dcim", "canon", "nikon", "apple", "msdcf"}
"""Words in the names of folders for a session or a camera, which are not names of classes."""
SYSTEM_FOLDERS = frozenset(
    {*("__macosx", "@eadir", "@recycle", "@recently-snapshot", "@tmp", "#recycle", "#snapshot"),
     *("$recycle.bin", "system volume information", "lost+found", "found.000", "lost.dir", "__pycache__")}
)  # fmt: skip
"""System and server folders to ignore, in lower case; names that begin with a dot are also ignored."""
SYSTEM_FILES = frozenset({"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"})
"""Files that file managers leave in a folder of photos, in lower case."""

DEEPEST = 1_000  # in place of a level: each folder with photos is a class, at any level

Check = Callable[[], object]  # called often during a scan; it may raise an exception to stop the scan
Parts = tuple[str, ...]  # names of the folders between a root and a file or folder


class TwoLevelsError(FrnError):
    """A tree of two levels of names; `levels` has the photos of each class, by class, for both."""

    def __init__(self, root: Path, levels: tuple[dict[str, int], dict[str, int]]) -> None:
        said = " or ".join(f"{number} ({_described(counts)})" for number, counts in enumerate(levels, 1))
        super().__init__(f"{root}: has two levels of folders. Choose which are the classes: --level {said}.")
        self.levels = levels


def _described(counts: dict[str, int]) -> str:
    first = ", ".join(list(counts)[:3]) + (", ..." if len(counts) > 3 else "")
    return f"{len(counts)} classes: {first}"


@dataclass(frozen=True, slots=True)
class Broken:
    """A file that is not an image or cannot be read, and the reason."""

    path: str
    reason: str

    def __str__(self) -> str:
        return self.reason


Files = tuple[dict[Parts, list[str]], list[Broken]]  # the photos in every folder, and what was skipped


@dataclass
class ClassTree:
    """A folder as classes: what it contains and what was skipped."""

    root: Path  # folder that contains the class folders
    folders: dict[str, list[str]]
    """Photos of each class folder that has any, relative to it; class folders are relative to `root`. Not sorted."""
    loose: list[str]  # photos beside the class folders
    skipped: list[Broken]
    is_nested: bool  # whether folders without photos of their own have several folders that may be named after classes

    def require_classes(self, where: Path) -> None:
        """Raise FrnError if no class has a photo, and say what to do."""
        if not self.folders:
            more = f" The first of {len(self.skipped)} skipped entries: {self.skipped[0]}" if self.skipped else ""
            more = f" Move its {len(self.loose)} photos into such folders." if self.loose else more
            raise FrnError(f"{where}: has no class folders with photos. It needs a folder of images per class.{more}")


def class_tree(
    root: Path, level: int | None = None, check: Check = lambda: None, files: Files | None = None
) -> ClassTree:
    """List the class folders of a folder or zip, and their photos.

    Args:
        root: a folder or zip, or a folder in a zip.
        level: level of the class folders, 1 or 2, in a tree that has two levels of names; or `DEEPEST`.
        check: called often; may raise to stop.
        files: what `list_tree` returned, if it was called before.

    Raises TwoLevelsError without `level` for such a tree, and FrnError if `root` cannot be listed, or contains the
    splits of a data set.
    """
    tree, broken = files or list_tree(root, check)
    skipped = list(broken)
    filled = {parts[:end] for parts, names in tree.items() if names for end in range(len(parts) + 1)}
    within: dict[Parts, list[Parts]] = {}
    for parts in tree:
        if parts:
            within.setdefault(parts[:-1], []).append(parts)

    def inside(parts: Parts) -> list[Parts]:
        return [folder for folder in within.get(parts, ()) if folder in filled]

    def names_in(parts: Parts) -> list[Parts]:
        """Return the folders in a folder that may be named after a class: neither dates nor `images`."""
        return [folder for folder in inside(parts) if is_name(folder[-1], has_photos=bool(tree[folder]))]

    base: Parts = ()
    while not tree[base] and len(inside(base)) == 1 and not tree[inside(base)[0]] and names_in(inside(base)[0]):
        (base,) = inside(base)
    home, tops = root.joinpath(*base), inside(base)
    names = [folder[-1] for folder in within.get(base, ())]
    splits = {folder[-1]: bool(tree[folder]) for folder in tops if split_named(folder[-1])}
    if (len(names) > 1 and all(name.lower() in SPLIT_NAMES for name in names)) or (
        not any(splits.values()) and len(set(map(split_named, splits))) > 1
    ):
        listed = ", ".join(str(home / name) for name in sorted(splits))
        raise FrnError(f"{home}: contains the splits of a data set, not classes. Choose one of them: {listed}")

    def at(depth: int) -> dict[str, list[str]]:
        """Return the photos of each class folder at most `depth` below the base; no photo is lost."""
        folders: dict[str, list[str]] = {}
        for parts, names in tree.items():
            if names and len(parts) > len(base) and parts[: len(base)] == base:
                end = min(len(parts), len(base) + depth)
                files = folders.setdefault("/".join(parts[len(base) : end]), [])
                files += ["/".join((*parts[end:], name)) for name in names]
        return folders

    if level is None and any(not tree[top] and len(names_in(top)) > 1 for top in tops):
        raise TwoLevelsError(home, (_counts(at(1)), _counts(at(2))))
    empty = [parts for parts in tree if 0 < len(parts) - len(base) <= (level or 1) and parts not in filled]
    skipped += [_skip(root.joinpath(*parts), "it has no photos") for parts in empty if parts[:-1] in filled | {base}]
    folders = at(level or 1)
    skipped += [_skip(home / name, "it is not in a class folder") for name in tree[base] if folders]
    nested = [folder for top in tops if not tree[top] for folder in names_in(top)]
    return ClassTree(home, folders, tree[base], skipped, is_nested=len(nested) > 1)


def list_tree(root: Path, check: Check = lambda: None) -> Files:
    """Return the photos in every folder below a folder or in a zip, and what was skipped; a read-me beside them is not.

    Raises FrnError if the folder cannot be listed.
    """
    return _walk(root, check, beside=False)


def _counts(folders: dict[str, list[str]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for folder in sorted(folders, key=natural_order):
        name = normal(folder.rpartition("/")[2])
        counts[name] = counts.get(name, 0) + len(folders[folder])
    return counts


def photos_below(root: Path, check: Check = lambda: None) -> tuple[list[Path], list[Broken]]:
    """Return all photos below a folder or in a zip, in natural order, and what was skipped.

    Raises FrnError if the folder cannot be listed.
    """
    tree, skipped = _walk(root, check, beside=True)
    names = ["/".join((*parts, name)) for parts, files in tree.items() for name in files]
    return [root / name for name in sorted(names, key=natural_order)], skipped


def _walk(root: Path, check: Check, *, beside: bool) -> Files:
    """Return the photos in every folder below `root`, and the other entries; those in `root` itself only if `beside`.

    Each folder is read once, in its real place: links to folders come last, and none leads above `root`.
    """
    tree: dict[Parts, list[str]] = {}
    skipped: list[Broken] = []
    seen: dict[tuple[int, int], Path] = {}
    waiting, links = deque[Parts]([()]), deque[Parts]()
    in_zip = find_zip(root)
    if in_zip:
        skipped += [_skip(name, "the zip has it twice; the last one is used") for name in in_zip[0].repeated]
    elif is_folder(root):
        seen = {identity(folder): folder for folder in root.resolve().parents}
    while waiting or links:
        check()
        parts = waiting.popleft() if waiting else links.popleft()
        folder = root.joinpath(*parts)
        try:
            if not in_zip and (first := seen.setdefault(identity(folder), folder)) is not folder:
                skipped.append(_skip(folder, f"it is a link to {first}"))
                continue
            files, folders = list_entries(folder)
        except OSError as error:
            raise FrnError(f"{folder}: cannot be listed ({error.strerror})") from error
        except FrnError as error:
            if not parts:
                raise
            skipped.append(Broken(str(folder), f"{error}. It is skipped."))
            continue
        tree[parts] = list(filter(looks_like_image, files))
        for name in files:
            if not looks_like_image(name):
                broken = not in_zip and not is_there(folder / name)
                if broken or parts or beside:  # a read-me beside the class folders is normal
                    skipped.append(_skip(folder / name, "it is a broken link" if broken else why_skipped(name)))
        for name in folders:
            linked = not in_zip and (folder / name).is_symlink()
            (links if linked else waiting).append((*parts, name))
    return tree, skipped


def list_entries(folder: Path) -> tuple[list[str], list[str]]:
    """List the files and folders in a folder, sorted, without those of the system and without caches.

    Raises FrnError if the folder cannot be listed.
    """
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
            if is_of_the_system(entry.name):
                continue
            if not is_folder(entry.path):
                files.append(entry.name)
            elif not is_there(os.path.join(entry.path, TAG)):  # noqa: PTH118  # https://bford.info/cachedir
                folders.append(entry.name)
    except OSError as error:
        raise FrnError(f"{folder}: cannot be listed ({error.strerror})") from error
    return sorted(files), sorted(folders)


def is_name(name: str, *, has_photos: bool) -> bool:
    """Return whether a folder may be named after a class, not after a date, a number or its kind of content."""
    words = set(_words(name))
    return bool(words - SESSION) or bool(words and not has_photos)


def _words(name: str) -> Iterator[str]:
    return (word.lower() for word in re.findall(r"[^\W\d_]+", spaced(name)))


def split_named(name: str) -> str | None:
    """Return the split that a folder name stands for, such as `val` for `Validation` and `valid_set`, or None."""
    words = [word for word in _words(name) if word not in GENERIC]
    return SPLIT_NAMES.get(words[0]) if len(words) == 1 else None


def spaced(name: str) -> str:
    """Return a name in CamelCase as lowercase words."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower()


def is_of_the_system(name: str) -> bool:
    """Return whether an entry is hidden, or left by a system or file manager: thumbnails, recycle bins."""
    return name.startswith(".") or name.lower() in SYSTEM_FILES or name.lower() in SYSTEM_FOLDERS


def looks_like_image(name: str) -> bool:
    """Return whether a name, also with a box, ends like that of an image."""
    return split_box(name)[0].suffix.lower() in EXTENSIONS


def why_skipped(name: str) -> str:
    """Return the reason why a file is not an image, judging by its name."""
    suffix = Path(name).suffix
    if suffix.lower() in RAW_NAMES:
        return f"it is {RAW}"
    return f"{suffix} is not a supported image format" if suffix else "its name has no extension"


def _skip(path: Path | str, why: str) -> Broken:
    return Broken(str(path), f"{path}: is skipped: {why}")


def identity(folder: Path) -> tuple[int, int]:
    """Return what a folder and all links to it share."""
    status = folder.stat()
    return status.st_dev, status.st_ino
