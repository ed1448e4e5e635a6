"""What a folder shows to someone who picks files in it."""

import os
from pathlib import Path

from frn.errors import FrnError
from frn.inference.project import is_project
from frn_tui.engine.scan import is_folder, looks_like_image, resolve
from frn_tui.engine.worker_queues import Job
from frn_tui.protocol import Entry, ListFolder, Listing

ORDER = ("folder", "image", "project", "model")


def list_folder(request: ListFolder, job: Job) -> Listing:
    """The folders, images, projects and models in a folder."""
    folder = resolve(request.path)
    entries: list[Entry] = []
    try:
        with os.scandir(folder) as found:
            for item in found:
                job.check()
                if not item.name.startswith(".") and (entry := _describe(item)):
                    entries.append(entry)
    except (OSError, ValueError) as error:
        raise FrnError(f"{folder}: cannot be listed ({getattr(error, 'strerror', None) or error})") from error
    entries.sort(key=lambda entry: (ORDER.index(entry["kind"]), entry["name"]))
    return {"path": folder, "parent": os.path.dirname(folder), "entries": entries}  # noqa: PTH120


def _describe(item: os.DirEntry[str]) -> Entry | None:
    if is_folder(item):
        return {"name": item.name, "kind": "folder"}
    if looks_like_image(item.name):
        return {"name": item.name, "kind": "image"}
    if is_project(Path(item.name)):
        return {"name": item.name, "kind": "project"}
    if item.name.lower().endswith(".onnx"):
        return {"name": item.name, "kind": "model"}
    return None
