"""Sorting photos into one folder per prediction: copied, or moved on request, without overwriting."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from frn.errors import FrnError
from frn.system.files import remove_unfinished
from frn_tui.client.file_requests import MovePhotos, SettleMoves, SortedPhotos, SortPhotos
from frn_tui.engine.files.file_names import fresh_name, numbered, safe_name
from frn_tui.engine.files.moves import MoveJournal, settle_all
from frn_tui.engine.files.placing import copy_new, is_same_photo, make_folder, move_new, remove_twin
from frn_tui.engine.worker_queues import Job


def sort_photos(request: SortPhotos, job: Job) -> SortedPhotos:
    """Sort photos into folders; failures are reported and do not stop the others."""
    root = Path(request.folder)
    if root.exists() and not root.is_dir():
        raise FrnError(f"{root}: is a file; choose a folder")
    journal = _journal(request.journal) if request.move else None
    sorted_photos = SortedPhotos(places={}, failed=[], twins=[], journal=str(journal.path) if journal else "")
    taken: set[str] = set()
    verdicts = dict.fromkeys([*request.verdicts, *(verdict for _, verdict in request.photos)])
    folders = {verdict: root / fresh_name(safe_name(verdict), taken) for verdict in verdicts}
    for done, (path, verdict) in enumerate(request.photos, 1):
        job.check()
        with _noted(path, sorted_photos):
            place, is_twin = put(Path(path), folders[verdict], journal)
            sorted_photos["places"][path] = str(place)
            if is_twin:
                sorted_photos["twins"].append(path)
        job.progress(done, len(request.photos))
    return sorted_photos


def move_photos(request: MovePhotos, job: Job) -> SortedPhotos:
    """Move sorted photos back to their original paths, or forward again."""
    journal = _journal(request.journal)
    moved = SortedPhotos(places={}, failed=[], twins=[], journal=request.journal)
    for before, place, is_twin in request.photos:
        job.check()
        source, target = (place, before) if request.back else (before, place)
        with _noted(source, moved):
            step_over(Path(source), Path(target), journal, back=request.back, is_twin=is_twin)
            moved["places"][source] = target
    return moved


def settle_moves(request: SettleMoves, job: Job) -> SortedPhotos:
    """Finish moves that killed programs left incomplete."""
    places, failed = settle_all()
    return SortedPhotos(places=places, failed=failed, twins=[], journal="")


def put(path: Path, folder: Path, journal: MoveJournal | None) -> tuple[Path, bool]:
    """Copy a photo into a folder, or move it if a journal is given to record that.

    Returns its path, and whether a moved photo was removed because the folder already had an identical one. If another
    photo has the same name, this one gets a number. Raises OSError if it cannot be placed; it then stays in place.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")
    made = make_folder(folder)
    if path.parent.samefile(folder):
        return path, False
    for name in numbered(path.name):
        target = folder / name
        if not os.path.lexists(target):
            with contextlib.suppress(FileExistsError):  # another program took the name first
                if journal is None:
                    copy_new(path, target)
                else:
                    with journal.moving(path, target, made):
                        move_new(path, target)
                return target, False
        if target.exists() and path.samefile(target):  # one is a link to the other: there is only one photo
            return target, False
        if is_same_photo(path, target):
            if journal is not None:
                with journal.moving(path, target):
                    remove_twin(path, target)
            return target, journal is not None
    raise AssertionError("unreachable")


def step_over(source: Path, target: Path, journal: MoveJournal, *, back: bool, is_twin: bool) -> None:
    """Undo or redo a move. Raises OSError, without losing anything, if a file is in the way or the photo is gone."""
    is_gone = not os.path.lexists(source)
    remove_unfinished(target)  # left by a killed program
    if os.path.lexists(target) and (is_gone or (is_twin and back and is_same_photo(source, target))):
        remove_unfinished(target)
        return  # already done by an earlier attempt
    try:
        if is_twin and back:
            copy_new(source, target)
            return
        made = () if back else make_folder(target.parent)
        with journal.moving(source, target, made):
            (remove_twin if is_twin else move_new)(source, target)
    except FileExistsError as error:
        raise OSError(errno.EEXIST, f"was not moved: {target} already exists") from error
    if back:
        journal.remove_empty(source.parent)


def _journal(path: str) -> MoveJournal:
    try:
        return MoveJournal(path)
    except OSError as error:
        raise FrnError(f"{error.filename}: cannot be created ({error.strerror}); no photo was moved") from error


@contextlib.contextmanager
def _noted(path: str, photos: SortedPhotos) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        photos["failed"].append((path, error.strerror or str(error)))
