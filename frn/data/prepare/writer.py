"""Writing a data set so that an interrupted call can continue and a second call changes nothing."""

import contextlib
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from frn.data.pixel_cache import Progress
from frn.data.prepare.benchmark import Item
from frn.data.prepare.stored_images import PNG_END, as_stored, to_png
from frn.errors import FrnError
from frn.system.files import remove_unfinished, write_atomically
from frn.system.hardware import cores

PIECE = 64
"""Images that are in memory together."""


def write_items(items: Sequence[Item], out: Path, progress: Progress | None = None, *, upright: bool = True) -> None:
    """Write every item to `out/split/label/file`; whole files stay as they are, and others are replaced.

    Not `upright`: an EXIF tag that would turn a copied JPEG on reading loses its effect.

    Sources are read one after the other, in their own order; pixels are converted and files written on all cores.
    FrnError if a file cannot be read or written.
    """
    todo = sorted((item for item in items if not _is_whole(item, out)), key=lambda item: item.source.order)
    for item in items:
        remove_unfinished(_path(item, out))
    done = len(items) - len(todo)
    with ThreadPoolExecutor(cores()) as pool:
        for start in range(0, len(todo), PIECE):
            piece = todo[start : start + PIECE]
            jobs = [pool.submit(_write, item, item.source.read(), out, upright) for item in piece]
            for job in jobs:
                job.result()
            done += len(piece)
            if progress:
                progress(done, len(items))


def _write(item: Item, data: bytes, out: Path, upright: bool) -> None:
    if item.convert is not None:
        data = to_png(data, item.source.where, item.convert)
    elif not upright:
        data = as_stored(data)
    path = _path(item, out)
    with contextlib.suppress(OSError):
        path.unlink()  # a damaged or outdated copy of ours, see `check_places`: no photo is written over
    write_atomically(path, data)


def _path(item: Item, out: Path) -> Path:
    return out / item.split / item.label / item.file


def _is_whole(item: Item, out: Path) -> bool:
    """Return whether its file is there: by its size if it is a copy, by its end if it is a PNG of ours."""
    try:
        with _path(item, out).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if item.convert is None and item.source.size >= 0:
                return size == item.source.size
            file.seek(-min(size, len(PNG_END)), os.SEEK_END)
            return file.read() == PNG_END
    except OSError:
        return False


def check_places(items: Sequence[Item], out: Path, *, replace: bool = False) -> None:
    """Make sure that every item has a place of its own, and that nothing else is there.

    FrnError if two items have the same place, one has none, or `out` holds something else: other files, or, without
    `replace`, files of the same names that differ.
    """
    wanted = Counter((item.split, item.label, item.file) for item in items)
    twice = [place for place, count in wanted.items() if count > 1]
    if twice:
        first, second = [i.source.where for i in items if (i.split, i.label, i.file) == twice[0]][:2]
        raise FrnError(
            f"{first} and {second} would both become {'/'.join(twice[0])} ({len(twice)} such files). Give each source "
            "once, or rename one of the files."
        )
    names = {name for _, label, file in wanted for name in (label, file)}
    unfit = sorted(name for name in names if name in ("", ".", "..") or set(name) & set("/\\\0"))
    if unfit:
        raise FrnError(f"the source calls something {unfit[0]!r}, which is no name for a file or folder")
    # Whatever lies in the splits' folders is trained on, so nothing else may.
    files: dict[tuple[str, str], set[str]] = {}
    for item in items:
        files.setdefault((item.split, item.label), set()).add(item.file)
    for split in {split for split, _ in files}:
        for folder in sorted((out / split).iterdir()) if (out / split).is_dir() else ():
            own = files.get((split, folder.name))
            others = [folder.name] if own is None else sorted(f for f in os.listdir(folder) if f not in own)
            others = [name for name in others if name[0] != "."]
            if others:
                raise FrnError(
                    f"{out / split}: already holds something else ({others[0]!r} in {folder.name}). "
                    "Give an --out of its own."
                )
    for place in () if replace else (_path(item, out) for item in items if not _is_whole(item, out)):
        if os.path.lexists(place):
            raise FrnError(f"{place}: already exists and differs, and frn has no record of it. Give another --out.")
