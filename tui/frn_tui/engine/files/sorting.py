"""Photos sorted into a folder for each verdict: copied, or moved where that is asked for; nothing is overwritten."""

import filecmp
import os
import shutil
from pathlib import Path

from frn.errors import FrnError
from frn_tui.client.file_requests import SortedPhotos, SortPhotos
from frn_tui.engine.files.file_names import fresh_name, safe_name
from frn_tui.engine.worker_queues import Job


def sort_photos(request: SortPhotos, job: Job) -> SortedPhotos:
    """Sort photos into folders; one that cannot be is told of, and stops no other."""
    root = Path(request.folder)
    if root.exists() and not root.is_dir():
        raise FrnError(f"{root}: is a file; name a folder")
    places: dict[str, str] = {}
    failed: list[tuple[str, str]] = []
    taken: set[str] = set()
    verdicts = dict.fromkeys([*request.verdicts, *(verdict for _, verdict in request.photos)])
    folders = {verdict: root / fresh_name(safe_name(verdict), taken) for verdict in verdicts}
    for done, (path, verdict) in enumerate(request.photos, 1):
        job.check()
        try:
            places[path] = str(_put(Path(path), folders[verdict], move=request.move))
        except OSError as error:
            failed.append((path, error.strerror or str(error)))
        job.progress(done, len(request.photos))
    return {"places": places, "failed": failed}


def _put(path: Path, folder: Path, *, move: bool) -> Path:
    """Copy or move a file into a folder, beside files of the same name; one that is there already stays alone."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / path.name
    if path.parent.resolve() == folder.resolve():
        return path
    if target.exists() and path.samefile(target):  # a link from one to the other: there is only one photo
        return target
    if target.is_file() and filecmp.cmp(path, target, shallow=False):
        if move:
            path.unlink()
        return target
    if os.path.lexists(target):  # a link that leads nowhere, too
        target = folder / fresh_name(path.name, {name.casefold() for name in os.listdir(folder)})
    try:
        if move and not path.is_symlink():
            shutil.move(path, target)
            return target
        shutil.copy2(path, target)
    except OSError:  # a full disk has taken half of it
        if path.exists():
            target.unlink(missing_ok=True)
        raise
    if move:  # the link: elsewhere it may lead nowhere
        path.unlink()
    return target
