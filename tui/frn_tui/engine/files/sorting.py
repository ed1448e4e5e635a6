"""Sorting photos into one folder per prediction: copied, or moved on request, without overwriting."""

import contextlib
import errno
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from frn.errors import FrnError
from frn.images.boxes import box_name, split_box
from frn.images.opening import read_file
from frn.system.archives import find_zip
from frn.system.files import is_file, remove_unfinished, sync_path
from frn_tui.client.file_requests import EndMoves, MovePhoto, Placed, PlanMoves, Planned, SortPhoto
from frn_tui.client.protocol import NOT_PLACED
from frn_tui.engine.files.moves import MoveJournal, is_stamped
from frn_tui.engine.files.placing import (
    copy_new,
    fresh_name,
    is_same_photo,
    make_folder,
    move_new,
    numbered,
    remove_twin,
    safe_name,
)
from frn_tui.engine.worker_queues import Job


def sort_photo(request: SortPhoto, job: Job) -> Placed:
    """Copy or move a photo into the folder of its verdict."""
    folders = _folders(request.folder, request.verdicts)
    journal = _journal(request.journal) if request.move else None
    with _reported():
        file, box = split_box(request.path)  # a box keeps its whole photo
        with _unpacked(file, move=request.move) as photo:
            place, is_twin = put(photo, folders[request.verdict], journal)
    named = box_name(str(place), box) if box else str(place)
    return {"place": named, "is_twin": is_twin, "journal": str(journal.path) if journal else ""}


@contextlib.contextmanager
def _unpacked(file: Path, *, move: bool) -> Iterator[Path]:
    """Yield a photo as a file; to be copied, one in a zip is unpacked into a temporary folder.

    Raises OSError if it cannot be unpacked, or would be moved out of a zip.
    """
    inside = find_zip(file)
    if inside is None or not inside[1]:
        yield file
        return
    if move:
        raise OSError(errno.EROFS, "is in a zip, so it can only be copied")
    with tempfile.TemporaryDirectory() as folder:
        photo = Path(folder, file.name)
        try:
            photo.write_bytes(read_file(file))
        except FrnError as error:
            raise OSError(errno.EIO, str(error)) from error
        yield photo


def move_photo(request: MovePhoto, job: Job) -> None:
    journal, (source, box) = _journal(request.journal), split_box(request.source)
    target = split_box(request.target)[0] if box else Path(request.target)  # a file may really have such a name
    with _reported():
        step_over(source, target, journal, back=request.back, is_twin=request.is_twin)


def put(path: Path, folder: Path, journal: MoveJournal | None) -> tuple[Path, bool]:
    """Copy a photo into a folder, or move it if a journal is given to record that.

    Returns its path, and whether a moved photo was removed because the folder already had an identical one. If another
    photo has the same name, this one gets a number. Raises OSError if it cannot be placed; it then stays in place.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")
    for new in make_folder(folder):
        if journal is not None:
            journal.made(new)
    if path.parent.samefile(folder):
        return path, False
    for name in numbered(path.name):
        target = folder / name
        if not os.path.lexists(target):
            with contextlib.suppress(FileExistsError):  # another program took the name first
                if journal is None:
                    copy_new(path, target)
                else:
                    with journal.moving(path, target):
                        move_new(path, target)
                return target, False
        if target.exists() and path.samefile(target):  # one is a link to the other: there is only one photo
            return target, False
        if is_same_photo(path, target):
            if journal is not None:
                with journal.moving(path, target, is_twin=True):
                    remove_twin(path, target)
            return target, journal is not None
    raise AssertionError("unreachable")


def step_over(source: Path, target: Path, journal: MoveJournal, *, back: bool, is_twin: bool) -> None:
    """Undo or redo a move. Raises OSError, without losing anything, if a file is in the way or the photo is gone.

    To undo, the photo must still be the one that was moved. A moved link becomes a link again if it leads to the same
    photo, and folders that were created for the move are removed once they are empty.
    """
    record, before, after = journal.find(str(target), str(source)) if back else (None, {}, {})
    link, is_gone = before.get("link"), not os.path.lexists(source)
    remove_unfinished(target)  # left by a killed program
    is_linked = link is not None and target.is_symlink() and os.readlink(target) == link  # noqa: PTH115
    if os.path.lexists(target) and (is_gone or not (is_linked or (is_twin and not back))):
        if (is_gone and (is_linked or is_stamped(target.stat(), before))) or (
            is_twin and back and is_same_photo(source, target)
        ):
            return  # already done by an earlier attempt
        raise OSError(errno.EEXIST, f"was not moved: {target} already exists")
    if not is_gone and not is_stamped(source.lstat(), after):
        raise OSError(errno.EBUSY, "was not moved back: it is another photo now, or was edited")
    try:
        make_folder(target.parent)
        if is_twin and back:
            if link is None or not _restore_link(link, target, source):
                copy_new(source, target)
            journal.write_outcome("moved", source, target)
            return
        with journal.moving(source, target, is_twin=is_twin):
            if link is not None and _restore_link(link, target, source):
                source.unlink()
            else:
                (remove_twin if is_twin else move_new)(source, target)
    except FileExistsError as error:
        raise OSError(errno.EEXIST, f"was not moved: {target} already exists") from error
    for folder in source.parents:
        if record is None or str(folder) not in record.folders:
            break
        with contextlib.suppress(OSError):  # it contains other files
            folder.rmdir()


def _restore_link(link: str, place: Path, photo: Path) -> bool:
    """Create a link that was moved; return whether it leads to a photo with the same content, otherwise remove it."""
    if not os.path.lexists(place):
        place.symlink_to(link)
    if is_same_photo(place, photo):
        sync_path(place.parent)
        return True
    place.unlink()
    return False


def plan_moves(request: PlanMoves, job: Job) -> Planned:
    """Describe what a move would do; to begin it, record the plan in a new journal."""
    folders, targets, record = _folders(request.folder, request.verdicts), Counter[Path](), ""
    for name, verdict in request.photos:
        file = split_box(name)[0]
        target = folders[verdict] / file.name
        if is_file(file) and file.parent.resolve() != target.parent.resolve():
            targets[target] += 1
    if request.begin:
        journal = _journal("")
        journal.begin(request.folder, request.photos, request.verdicts)
        record = str(journal.path)
    return {
        "moves": targets.total(),
        "folders": len({target.parent for target in targets}),
        "stay": len(request.photos) - targets.total(),
        "taken": targets.total() - sum(not os.path.lexists(target) for target in targets),
        "journal": record,
    }


def end_moves(request: EndMoves, job: Job) -> None:
    _journal(request.journal).end()


def _folders(folder: str, verdicts: Sequence[str]) -> dict[str, Path]:
    root, taken = Path(folder), set[str]()
    if root.exists() and not root.is_dir():
        raise FrnError(f"{root}: is a file; choose a folder")
    return {verdict: root / fresh_name(safe_name(verdict), taken) for verdict in verdicts}


def _journal(path: str) -> MoveJournal:
    try:
        return MoveJournal(path)
    except OSError as error:
        raise FrnError(f"{error.filename}: cannot be created ({error.strerror}); no photo was moved") from error


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Report that a photo could not be placed, which does not stop the others."""
    try:
        yield
    except OSError as error:
        raise FrnError(error.strerror or str(error), code=NOT_PLACED) from error
