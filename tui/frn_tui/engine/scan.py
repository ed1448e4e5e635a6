"""What a path holds: an image, a folder of images, a folder of class folders, a project, or nothing of use."""

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from frn.images import EXTENSIONS
from frn.inference.project import SUFFIX, is_project
from frn_tui.engine.worker_queues import Request
from frn_tui.protocol import ScanDone

COUNTED = 0.1
"""Seconds between two events."""
MAX_DEPTH = 32


def scan(request: Request) -> ScanDone:
    """Look at a path; `recursive` counts the images in folders of a class folder to the class."""
    given = request.text("path")
    if not given.strip():
        return _nothing("no path was given")
    path = resolve(given)
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except (OSError, ValueError) as error:
        return _nothing(f"{path}: {getattr(error, 'strerror', None) or error}")
    if stat.S_ISDIR(mode):
        return _Walk(request, recursive=request.flag("recursive")).look(path)
    if not stat.S_ISREG(mode):
        return _nothing(f"{path}: is not a regular file")
    if is_project(Path(path)):
        return {"kind": "project", "files": [path], "classes": {}}
    if looks_like_image(path):
        return {"kind": "image", "files": [path], "classes": {}}
    return _nothing(f"{path}: is no folder, no image ({', '.join(sorted(EXTENSIONS))}) and no project (*{SUFFIX})")


def resolve(path: str) -> str:
    """The path as it is meant: absolute, without `~` and `..`."""
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111  # these never fail


def _nothing(reason: str) -> ScanDone:
    return {"kind": "nothing", "files": [], "classes": {}, "reason": " ".join(reason.splitlines())}


def looks_like_image(name: str) -> bool:
    """Whether a file is named like an image."""
    return os.path.splitext(name)[1].lower() in EXTENSIONS  # noqa: PTH122


class _Walk:
    """One look at a folder. Hidden entries are left out, and no folder is visited twice, whatever links lead there."""

    def __init__(self, request: Request, *, recursive: bool) -> None:
        self._request = request
        self._recursive = recursive
        self._visited: set[tuple[int, int]] = set()
        self._counted = 0
        self._told = time.monotonic()

    def look(self, root: str) -> ScanDone:
        """The folder's images and class folders."""
        try:
            files, folders = self._list(root)
        except OSError as error:
            return _nothing(f"{root}: cannot be listed ({error.strerror})")
        classes: dict[str, list[str]] = {}
        for folder in sorted(folders):
            if found := sorted(self._images(folder, 1)):
                classes[os.path.basename(folder)] = found  # noqa: PTH119
        if classes:
            return {"kind": "classes", "files": [], "classes": classes}
        if files:
            return {"kind": "folder", "files": sorted(files), "classes": {}}
        return _nothing(f"{root}: " + _describe(folders, recursive=self._recursive))

    def _images(self, folder: str, depth: int) -> Iterator[str]:
        try:
            files, folders = self._list(folder)
        except OSError:  # that one is left out, and none else
            return
        yield from files
        if self._recursive and depth < MAX_DEPTH:
            for inner in folders:
                yield from self._images(inner, depth + 1)

    def _list(self, folder: str) -> tuple[list[str], list[str]]:
        """Images and folders directly in a folder."""
        self._request.check()
        status = os.stat(folder)  # noqa: PTH116
        if (place := (status.st_dev, status.st_ino)) in self._visited:
            return [], []
        self._visited.add(place)
        files, folders = [], []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if is_folder(entry):
                    folders.append(entry.path)
                elif looks_like_image(entry.name):
                    files.append(entry.path)
                    self._count()
        return files, folders

    def _count(self) -> None:
        self._counted += 1
        if self._counted % 64 == 0:
            self._request.check()
        if time.monotonic() - self._told >= COUNTED:
            self._told = time.monotonic()
            self._request.event("counted", {"files": self._counted})


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # a loop of links
        return False


def _describe(folders: list[str], *, recursive: bool) -> str:
    if not folders:
        return "has no images"
    names = ", ".join(os.path.basename(folder) for folder in sorted(folders)[:8])  # noqa: PTH119
    return f"has no images, and its folders have none either ({names})" + ("" if recursive else ". Open one of them.")
