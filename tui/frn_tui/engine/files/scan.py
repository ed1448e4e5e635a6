"""Contents of a path: an image, a folder of images or of class folders, a project; file lists; moved photos."""

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from frn.data.folders import SPLIT_NAMES, is_ignored, looks_like_image
from frn.errors import FrnError
from frn.estimator.loading import is_table
from frn.images.boxes import split_box
from frn.images.opening import EXTENSIONS, read_file
from frn.inference.feature_cache import content_key
from frn.inference.project import SUFFIX, is_project
from frn.inference.session import Support
from frn.system.archives import DAMAGE, find_zip, open_zip
from frn.system.files import is_file, is_folder
from frn_tui.client.file_requests import (
    Entry,
    FindFolders,
    Found,
    Kind,
    ListFolder,
    Listing,
    RelocatePhotos,
    ScanPath,
    StampFiles,
)
from frn_tui.engine.worker_queues import Check, Job
from frn_tui.terminal.paths import absolute, natural_order

KINDS: dict[Kind, Callable[[Path], bool]] = {
    "image": lambda path: looks_like_image(path.name),
    "project": is_project,
    "bundle": lambda path: is_bundle(path.name),
    "table": is_table,
    "model": lambda path: path.suffix.lower() == ".onnx",
}
"""Kinds of files in the order of a file picker; folders come first."""
MAX_FOLDERS = 5_000
"""Maximum number of subfolders to list."""


def scan(request: ScanPath, job: Job) -> Found:
    """Return the contents of a path; in a folder of folders, each is a class with all images below it."""
    path = absolute(request.path)
    try:
        if not request.path.strip():
            raise FrnError("no path given")
        return _contents(path, job.check)
    except FrnError as error:
        reason = str(error)
    except DAMAGE as error:
        reason = f"{path}: {getattr(error, 'strerror', None) or f'cannot be opened ({error})'}"
    return {"kind": "nothing", "files": [], "classes": {}, "reason": " ".join(reason.splitlines())}


def _contents(path: str, check: Check) -> Found:
    """Return the contents of a path; classes in a zip or CSV are those that the commands read."""
    mode = split_box(path)[0].stat().st_mode
    if stat.S_ISDIR(mode):
        return scan_folder(path, check)
    if not stat.S_ISREG(mode):
        raise FrnError(f"{path}: is not a regular file")
    if is_project(Path(path)):
        return {"kind": "project", "files": [path], "classes": {}}
    if looks_like_image(path):
        return {"kind": "image", "files": [path], "classes": {}}
    if is_bundle(path):
        with open_zip(Path(path)) as archive:
            if any(is_project(Path(name)) for name in archive.namelist()):
                return {"kind": "bundle", "files": [path], "classes": {}}
    elif not is_table(Path(path)):
        kinds = f"an image ({', '.join(sorted(EXTENSIONS))}), a project (*{SUFFIX}), a zip or a CSV"
        raise FrnError(f"{path}: is not a folder, {kinds}")
    from frn.estimator.loading import class_files  # imported here because few sessions need it

    found = class_files(Path(path))
    classes = {name: list(map(str, paths)) for name, paths in found.members.items()}
    return {"kind": "classes", "files": [], "classes": classes, "skipped": found.skipped}


def is_bundle(name: str) -> bool:
    """Return whether a file is a zip by its suffix: a bundle, or class folders."""
    return name.lower().endswith(".zip")


def scan_folder(root: str, check: Check) -> Found:
    """Return the images of a folder, or its subfolders as classes."""
    visited: set[tuple[int, int]] = set()
    try:
        files, folders = _list(root, visited, check)
    except OSError as error:
        raise FrnError(f"{root}: cannot be listed ({error.strerror})") from error
    classes: dict[str, list[str]] = {}
    folders.sort(key=natural_order)
    names = [os.path.basename(folder) for folder in folders]  # noqa: PTH119
    if folders and {name.casefold() for name in names} <= SPLIT_NAMES.keys():
        raise FrnError(f"{root}: contains the splits of a data set ({', '.join(names)}). Open one of them.")
    for name, folder in zip(names, folders, strict=True):
        if images := list(images_below(folder, visited, check)):
            classes[name] = sorted(images, key=natural_order)
    if classes or files:
        files.sort(key=natural_order)
        return {"kind": "classes" if classes else "folder", "files": files, "classes": classes}
    if not folders:
        raise FrnError(f"{root}: has no images")
    raise FrnError(f"{root}: contains no images, and neither do its folders ({', '.join(names[:8])})")


def images_below(root: str, visited: set[tuple[int, int]], check: Check) -> Iterator[str]:
    """Yield the images in a folder and its subfolders; folders that cannot be listed are skipped."""
    waiting = [root]
    while waiting:
        try:
            files, folders = _list(waiting.pop(), visited, check)
        except OSError:
            continue
        yield from files
        waiting += folders


def _list(folder: str, visited: set[tuple[int, int]], check: Check) -> tuple[list[str], list[str]]:
    """Return images and folders directly in a folder; no folder is listed twice, whatever links lead to it."""
    check()
    status = os.stat(folder)  # noqa: PTH116
    if (place := (status.st_dev, status.st_ino)) in visited:
        return [], []
    visited.add(place)
    files, folders = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_ignored(entry):
                continue
            if is_folder(entry.path):
                folders.append(entry.path)
            elif looks_like_image(entry.name):
                files.append(entry.path)
                check()
    return files, folders


def stamp(request: StampFiles, job: Job) -> dict[str, tuple[int, int]]:
    """Return sizes and modification times of existing files; of those in a zip, zeros."""
    stamps: dict[str, tuple[int, int]] = {}
    for name in request.paths:
        job.check()
        path = Path(name)
        if is_file(split_box(path)[0]) or find_zip(path):
            support = Support.of(path, "")
            stamps[name] = support.size, support.mtime_ns
    return stamps


def list_folder(request: ListFolder, job: Job) -> Listing:
    """List the folders, images, projects and models in a folder."""
    folder = absolute(request.path)
    entries: list[Entry] = []
    try:
        with os.scandir(folder) as found:
            for item in found:
                job.check()
                if not item.name.startswith(".") and (entry := _describe(item)):
                    entries.append(entry)
    except (OSError, ValueError) as error:
        raise FrnError(f"{folder}: cannot be listed ({getattr(error, 'strerror', None) or error})") from error
    order = ["folder", *KINDS]
    entries.sort(key=lambda entry: (order.index(entry["kind"]), natural_order(entry["name"])))
    return {"path": folder, "entries": entries}


def find_folders(request: FindFolders, job: Job) -> list[str]:
    """Return the folders below a folder, level by level; hidden ones and those that cannot be listed are skipped."""
    root = absolute(request.path)
    found: list[str] = []
    visited, waiting = set[tuple[int, int]](), deque([root])
    while waiting and len(found) < MAX_FOLDERS:
        with suppress(OSError):
            folders = sorted(_list(waiting.popleft(), visited, job.check)[1], key=natural_order)
            shown = [folder for folder in folders if not os.path.basename(folder).startswith(".")]  # noqa: PTH119
            found += [os.path.relpath(folder, root) for folder in shown]
            waiting += shown
    return found[:MAX_FOLDERS]


def _describe(item: os.DirEntry[str]) -> Entry | None:
    path = Path(item.name)
    if is_folder(item.path):
        return {"name": item.name, "kind": "folder"}
    kind = next((kind for kind, fits in KINDS.items() if fits(path)), None)
    return None if kind is None else {"name": item.name, "kind": kind}


def relocate(request: RelocatePhotos, job: Job) -> dict[str, Support]:
    """Find photos by content; only files of a matching size are read."""
    if not is_folder(request.folder):
        raise FrnError(f"{request.folder}: is not a folder; choose the folder to search")
    wanted, sizes = set(request.sizes), set(request.sizes.values())
    found: dict[str, Support] = {}
    for path in images_below(request.folder, set(), job.check):
        with suppress(OSError, FrnError):  # it vanished, or cannot be read
            for end in ("", *request.boxes) if os.stat(path).st_size in sizes else ():  # noqa: PTH116
                named = Path(path + end)
                if (key := content_key(read_file(named))) in wanted:
                    wanted.discard(key)
                    found[key] = Support.of(named, key)
                    job.progress(len(found), len(request.sizes))
        if not wanted:
            break
    return found
