"""Contents of a path: an image, a folder of images or of class folders, a project; and lists for a file picker."""

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from frn.data.folders import SPLIT_NAMES, is_ignored
from frn.errors import FrnError
from frn.estimator.loading import is_table
from frn.images.opening import EXTENSIONS
from frn.inference.project import SUFFIX, is_project
from frn.system.archives import DAMAGE, open_zip
from frn_tui.client.file_requests import (
    Entry,
    FindFolders,
    Found,
    Inside,
    ListFolder,
    Listing,
    LookInside,
    ScanPath,
    StampFiles,
)
from frn_tui.engine.worker_queues import Check, Job
from frn_tui.terminal.paths import absolute, natural_order

ORDER = ("folder", "image", "project", "bundle", "table", "model")
MAX_FOLDERS = 5_000
"""Maximum number of subfolders to list."""
MAX_COUNTED, LISTED = 20_000, 40
"""Maximum numbers of photos to count and folders to name in a preview of a folder."""


def scan(request: ScanPath, job: Job) -> Found:
    """Return the contents of a path; in a folder of folders, each is a class with all images below it."""
    if not request.path.strip():
        return _nothing("no path given")
    path = absolute(request.path)
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except (OSError, ValueError) as error:
        return _nothing(f"{path}: {getattr(error, 'strerror', None) or error}")
    if stat.S_ISDIR(mode):
        return scan_folder(path, job.check)
    if not stat.S_ISREG(mode):
        return _nothing(f"{path}: is not a regular file")
    if is_project(Path(path)):
        return {"kind": "project", "files": [path], "classes": {}}
    if looks_like_image(path):
        return {"kind": "image", "files": [path], "classes": {}}
    if not (is_bundle(path) or is_table(Path(path))):
        kinds = f"an image ({', '.join(sorted(EXTENSIONS))}), a project (*{SUFFIX}), a zip or a CSV"
        return _nothing(f"{path}: is not a folder, {kinds}")
    try:
        return _classes_of(path)
    except FrnError as error:
        return _nothing(str(error))
    except DAMAGE as error:
        return _nothing(f"{path}: cannot be opened ({error})")


def _classes_of(path: str) -> Found:
    """Return the classes in a zip or CSV, as the commands read them, unless a zip is a bundle."""
    from frn.estimator.loading import class_files  # imported here because few sessions need it

    if is_bundle(path):
        with open_zip(Path(path)) as archive:
            if any(is_project(Path(name)) for name in archive.namelist()):
                return {"kind": "bundle", "files": [path], "classes": {}}
    found = class_files(Path(path))
    classes = {name: list(map(str, paths)) for name, paths in found.members.items()}
    return {"kind": "classes", "files": [], "classes": classes, "skipped": found.skipped}


def looks_like_image(name: str) -> bool:
    """Return whether a file name looks like that of an image."""
    return os.path.splitext(name)[1].lower() in EXTENSIONS  # noqa: PTH122


def is_bundle(name: str) -> bool:
    """Return whether a file has the suffix of a zip, of a project with its photos or of class folders."""
    return name.lower().endswith(".zip")


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # links form a loop
        return False


def _nothing(reason: str) -> Found:
    return {"kind": "nothing", "files": [], "classes": {}, "reason": " ".join(reason.splitlines())}


def scan_folder(root: str, check: Check) -> Found:
    """Return the images of a folder, or its subfolders as classes."""
    visited: set[tuple[int, int]] = set()
    try:
        files, folders = _list(root, visited, check)
    except OSError as error:
        return _nothing(f"{root}: cannot be listed ({error.strerror})")
    classes: dict[str, list[str]] = {}
    folders.sort(key=natural_order)
    names = [os.path.basename(folder) for folder in folders]  # noqa: PTH119
    if folders and {name.casefold() for name in names} <= SPLIT_NAMES.keys():
        return _nothing(f"{root}: contains the splits of a data set ({', '.join(names)}). Open one of them.")
    for name, folder in zip(names, folders, strict=True):
        if images := list(images_below(folder, visited, check)):
            classes[name] = sorted(images, key=natural_order)
    if classes:
        return {"kind": "classes", "files": sorted(files, key=natural_order), "classes": classes}
    if files:
        return {"kind": "folder", "files": sorted(files, key=natural_order), "classes": {}}
    if not folders:
        return _nothing(f"{root}: has no images")
    return _nothing(f"{root}: contains no images, and neither do its folders ({', '.join(names[:8])})")


def look_inside(request: LookInside, job: Job) -> Inside:
    """Count the photos in a folder and its subfolders, up to a limit that keeps it quick."""
    visited: set[tuple[int, int]] = set()
    try:
        files, folders = _list(absolute(request.path), visited, job.check)
    except (OSError, ValueError) as error:
        raise FrnError(f"{request.path}: cannot be listed ({getattr(error, 'strerror', None) or error})") from error
    classes, photos = [], len(files)
    for folder in sorted(folders, key=natural_order):
        count = sum(1 for _ in islice(images_below(folder, visited, job.check), MAX_COUNTED - min(photos, MAX_COUNTED)))
        photos += count
        classes.append((os.path.basename(folder), count))  # noqa: PTH119
    return {"folders": len(folders), "photos": photos, "more": photos >= MAX_COUNTED, "classes": classes[:LISTED]}


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
            if is_folder(entry):
                folders.append(entry.path)
            elif looks_like_image(entry.name):
                files.append(entry.path)
                check()
    return files, folders


def stamp(request: StampFiles, job: Job) -> dict[str, list[int]]:
    """Return sizes and modification times; repeated calls show which files are still being written."""
    stamps: dict[str, list[int]] = {}
    for path in request.paths:
        job.check()
        with suppress(OSError):
            status = os.stat(path)  # noqa: PTH116
            stamps[path] = [status.st_size, status.st_mtime_ns]
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
    entries.sort(key=lambda entry: (ORDER.index(entry["kind"]), natural_order(entry["name"])))
    return {"path": folder, "parent": os.path.dirname(folder), "entries": entries}  # noqa: PTH120


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
    if is_folder(item):
        return {"name": item.name, "kind": "folder"}
    if looks_like_image(item.name):
        return {"name": item.name, "kind": "image"}
    if is_project(Path(item.name)):
        return {"name": item.name, "kind": "project"}
    if is_bundle(item.name):
        return {"name": item.name, "kind": "bundle"}
    if is_table(Path(item.name)):
        return {"name": item.name, "kind": "table"}
    if item.name.lower().endswith(".onnx"):
        return {"name": item.name, "kind": "model"}
    return None
