"""Photos that are not where they were: which they are, and where they are now."""

import os
from collections.abc import Iterator
from pathlib import Path

from frn.errors import FrnError
from frn.images import read_file
from frn.inference.features import content_key
from frn.inference.session import Support
from frn_tui.engine.scan import is_folder, looks_like_image
from frn_tui.engine.worker_queues import Check, Job
from frn_tui.protocol import FindMissing, MissingFiles, Relocated, RelocatePhotos
from frn_tui.serialization import support_to_json


def find_missing(request: FindMissing, job: Job) -> MissingFiles:
    """The files among some that are not there."""
    missing = []
    for path in request.paths:
        job.check()
        if not os.path.isfile(path):  # noqa: PTH113
            missing.append(path)
    return {"missing": missing}


def relocate(request: RelocatePhotos, job: Job) -> Relocated:
    """Find photos by their content; files of another size are not read."""
    if not os.path.isdir(request.folder):  # noqa: PTH112
        raise FrnError(f"{request.folder}: is no folder; name one to look for the photos in")
    wanted, sizes = set(request.sizes), set(request.sizes.values())
    found: dict[str, Support] = {}
    for path, size in _images(request.folder, job.check):
        if size not in sizes:
            continue
        try:
            key = content_key(read_file(Path(path)))
        except FrnError:  # that file is none of them, or cannot be read now
            continue
        if key in wanted:
            wanted.discard(key)
            found[key] = Support.of(Path(path), key)
            job.progress(len(found), len(request.sizes))
            if not wanted:
                break
    return {"found": {key: support_to_json(support) for key, support in found.items()}}


def _images(root: str, check: Check) -> Iterator[tuple[str, int]]:
    """Image files in a folder and all below it, with their sizes; a folder that cannot be listed is left out."""
    waiting, visited = [root], set()
    while waiting:
        folder = waiting.pop()
        try:
            status = os.stat(folder)  # noqa: PTH116
            if (place := (status.st_dev, status.st_ino)) in visited:
                continue
            visited.add(place)
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in listed:
            check()
            try:
                if is_folder(entry):
                    waiting.append(entry.path)
                elif looks_like_image(entry.name):
                    yield entry.path, entry.stat().st_size
            except OSError:
                continue
