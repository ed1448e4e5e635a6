"""Photos that have been moved or deleted: which are missing, and where they are now."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from frn.errors import FrnError
from frn.images.opening import read_file
from frn.inference.feature_cache import content_key
from frn.inference.session import Support
from frn.system.archives import find_zip
from frn_tui.client.file_requests import FindMissing, RelocatePhotos
from frn_tui.engine.files.scan import images_below
from frn_tui.engine.worker_queues import Check, Job


def find_missing(request: FindMissing, job: Job) -> list[str]:
    """Return which of the files are missing."""
    missing = []
    for path in request.paths:
        job.check()
        if not os.path.isfile(path) and not find_zip(Path(path)):  # noqa: PTH113
            missing.append(path)
    return missing


def relocate(request: RelocatePhotos, job: Job) -> dict[str, Support]:
    """Find photos by content; only files of a matching size are read."""
    if not os.path.isdir(request.folder):  # noqa: PTH112
        raise FrnError(f"{request.folder}: is not a folder; choose the folder to search")
    wanted, sizes = set(request.sizes), set(request.sizes.values())
    found: dict[str, Support] = {}
    for path, size in _images(request.folder, job.check):
        if size not in sizes:
            continue
        try:
            key = content_key(read_file(Path(path)))
        except FrnError:  # not one of the photos, or unreadable
            continue
        if key in wanted:
            wanted.discard(key)
            found[key] = Support.of(Path(path), key)
            job.progress(len(found), len(request.sizes))
            if not wanted:
                break
    return found


def _images(root: str, check: Check) -> Iterator[tuple[str, int]]:
    """Yield image files in a folder and its subfolders with their sizes; vanished files are skipped."""
    for path in images_below(root, set(), check):
        with suppress(OSError):
            yield path, os.stat(path).st_size  # noqa: PTH116
