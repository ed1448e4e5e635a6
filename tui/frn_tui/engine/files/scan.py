"""Contents of a path: an image, a folder of images or of class folders, a project; file lists; moved photos."""

import os
import stat
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from frn.errors import FrnError
from frn.features.feature_cache import content_key
from frn.images.boxes import split_box
from frn.images.kinds import EXTENSIONS
from frn.images.opening import read_file
from frn.projects.class_files import class_files, is_file_of_classes, readings
from frn.projects.class_table import is_table
from frn.projects.folder_tree import Check, identity, list_entries, looks_like_image, photos_below
from frn.projects.names import natural_order
from frn.projects.project import SUFFIX, is_project
from frn.projects.session import Support
from frn.system.archives import DAMAGE, find_zip, open_zip
from frn.system.files import is_file, is_folder
from frn_tui.client.file_requests import (
    Entry,
    FindFolders,
    Kind,
    Level,
    ListFolder,
    Listing,
    PathContents,
    RelocatePhotos,
    ScanPath,
    StampFiles,
)
from frn_tui.engine.worker_queues import Job
from frn_tui.terminal.paths import absolute

KINDS: dict[Kind, Callable[[Path], bool]] = {
    "image": lambda path: looks_like_image(path.name),
    "project": is_project,
    "bundle": lambda path: is_bundle(path.name),
    "table": is_table,
    "model": lambda path: path.suffix.lower() == ".onnx",
}
"""Kinds of files in the order of a file picker; folders come first."""
THUMBNAILS = 3  # photos shown of each level of folders
MAX_FOLDERS = 5_000  # maximum number of subfolders to list


def scan(request: ScanPath, job: Job) -> PathContents:
    """Return the contents of a path; in a folder of folders, each is a class with all images below it."""
    path = absolute(request.path)
    try:
        if not request.path.strip():
            raise FrnError("no path given")
        return _contents(path, request.level, job.check)
    except FrnError as error:
        reason = str(error)
    except DAMAGE as error:
        reason = f"{path}: {getattr(error, 'strerror', None) or f'cannot be opened ({error})'}"
    return {"kind": "nothing", "files": [], "classes": {}, "reason": " ".join(reason.splitlines())}


def _contents(path: str, level: int | None, check: Check) -> PathContents:
    """Return the contents of a path; classes are those that the commands read."""
    mode = split_box(path)[0].stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise FrnError(f"{path}: is not a regular file")
    if stat.S_ISREG(mode):
        if is_project(Path(path)):
            return {"kind": "project", "files": [path], "classes": {}}
        if looks_like_image(path):
            return {"kind": "image", "files": [path], "classes": {}}
        if not is_file_of_classes(Path(path)):
            kinds = f"an image ({', '.join(sorted(EXTENSIONS))}), a project (*{SUFFIX}), a zip or a CSV"
            raise FrnError(f"{path}: is not a folder, {kinds}")
        if is_bundle(path):
            with open_zip(Path(path)) as archive:
                if any(is_project(Path(name)) for name in archive.namelist()):
                    return {"kind": "bundle", "files": [path], "classes": {}}
    if level is None:
        read = readings(Path(path), check)
        if len(read) > 1:
            levels: list[Level] = [
                {
                    "level": number,
                    "classes": {name: len(photos) for name, photos in each.with_others.items()},
                    "photos": [str(photos[0]) for photos in islice(each.members.values(), THUMBNAILS)],
                }
                for number, each in read.items()
            ]
            return {"kind": "levels", "files": [], "classes": {}, "levels": levels}
        (scanned,) = read.values()
    else:
        scanned = class_files(Path(path), level, check, needed=False)
    return {
        "kind": "classes" if scanned.members else "folder",
        "files": list(map(str, scanned.loose)),
        "classes": {name: list(map(str, paths)) for name, paths in scanned.with_others.items()},
        "skipped": scanned.notes + scanned.skipped,
    }


def is_bundle(name: str) -> bool:
    return name.lower().endswith(".zip")


def stamp(request: StampFiles, job: Job) -> dict[str, tuple[int, int]]:
    """Return sizes and modification times of existing files; of those in a zip, those of the zip."""
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
        with os.scandir(folder) as scanned:
            for item in scanned:
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
    root = Path(absolute(request.path))
    names: list[str] = []
    visited, waiting = set[tuple[int, int]](), deque([root])
    while waiting and len(names) < MAX_FOLDERS:
        job.check()
        with suppress(OSError, FrnError):
            if (place := identity(folder := waiting.popleft())) not in visited:  # links may lead in circles
                visited.add(place)
                folders = [folder / name for name in sorted(list_entries(folder)[1], key=natural_order)]
                names += [str(each.relative_to(root)) for each in folders]
                waiting += folders
    return names[:MAX_FOLDERS]


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
    photos: dict[str, Support] = {}
    for path in photos_below(Path(request.folder), job.check)[0]:
        with suppress(OSError, FrnError):  # it vanished, or cannot be read
            for end in ("", *request.boxes) if path.stat().st_size in sizes else ():
                named = Path(f"{path}{end}")
                if (key := content_key(read_file(named))) in wanted:
                    wanted.discard(key)
                    photos[key] = Support.of(named, key)
                    job.progress(len(photos), len(request.sizes))
        if not wanted:
            break
    return photos
