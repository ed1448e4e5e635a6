"""Writer of data sets: interrupted calls can continue, and repeated calls change nothing.

Images of benchmarks are written as stored, without the EXIF rotation that `frn.images` applies: boxes of CUB and
Aircraft are in stored coordinates, and the authors' scripts ignore EXIF tags.
"""

import contextlib
import io
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image

from frn.data.folders import SPLITS
from frn.data.pixel_cache import Progress
from frn.data.prepare.benchmark import Box, Item
from frn.errors import FrnError, shorten
from frn.images.opening import decode_stored
from frn.system.files import remove_unfinished, write_atomically
from frn.system.hardware import cores

PIECE = 64
"""Number of images in memory at a time."""
MAX_PIXELS = 64_000_000
"""Pixel limit for a written image, because in-process encoding cannot be stopped."""
PNG_END = b"IEND\xaeB`\x82"
"""Last bytes of a complete PNG file."""
EXIF = b"Exif\0\0"
"""Beginning of the EXIF segment of a JPEG; without it, decoders skip the segment."""
MAX_EXIF_START = 1 << 16
"""The EXIF segment is near the start of the file; some photos have a JFIF header before it."""


def write_items(items: Sequence[Item], out: Path, progress: Progress | None = None, *, upright: bool = True) -> None:
    """Write every item to `out/split/label/file`; complete files are kept, others are replaced.

    Unless `upright`, the EXIF rotation of copied JPEG files is disabled. Sources are read one after the other, in their
    own order; converting and writing use all cores. Raises FrnError if a file cannot be read or written.
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
    if item.box is not None:
        data = cropped_png(data, item.source.where, item.box)
    elif not upright:
        data = as_stored(data)
    path = _path(item, out)
    with contextlib.suppress(OSError):
        path.unlink()  # a damaged or outdated copy, see `check_places`: never a user's photo
    write_atomically(path, data)


def cropped_png(data: bytes, where: str, box: Box) -> bytes:
    """Decode and crop an image, and encode it as PNG. Raises FrnError as `decode_stored` does, or for a wrong box.

    Each side of the box is rounded to a whole pixel; outside the image it is black.
    """
    image = decode_stored(data, where)
    if image.width * image.height > MAX_PIXELS:
        raise FrnError(
            f"{where}: is {image.width} x {image.height} pixels; the limit for an image in a data set is "
            f"{MAX_PIXELS // 1_000_000} megapixels. Scale it down."
        )
    try:
        return encode_png(image.crop(box))
    except (OSError, ValueError, SystemError) as error:
        raise FrnError(f"{where}: cannot be cropped ({shorten(error)}). Download it again.") from error


def encode_png(image: Image.Image) -> bytes:
    """Encode a grey or RGB image as PNG, with its colour profile."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def as_stored(data: bytes) -> bytes:
    """Return a JPEG file of the same length whose EXIF data no longer rotate it, as the authors' loader reads it."""
    start = data.find(EXIF, 0, MAX_EXIF_START) if data.startswith(b"\xff\xd8") else -1
    return data if start < 0 else data[:start] + bytes(len(EXIF)) + data[start + len(EXIF) :]


def _path(item: Item, out: Path) -> Path:
    return out / item.split / item.label / item.file


def _is_whole(item: Item, out: Path) -> bool:
    """Return whether the file is complete: a copy by its size, a PNG written here by its last bytes."""
    try:
        with _path(item, out).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if item.box is None and item.source.size >= 0:
                return size == item.source.size
            file.seek(-min(size, len(PNG_END)), os.SEEK_END)
            return file.read() == PNG_END
    except OSError:
        return False


def check_places(items: Sequence[Item], out: Path, *, replace: bool = False) -> None:
    """Check that every item has its own place, and that the folder has no other files.

    Raises FrnError if two items share a place, or `out` contains other files; without `replace`, also if files with the
    same names differ.
    """
    wanted = Counter((item.split, item.label, item.file) for item in items)
    known = wanted.keys() | {(split, label) for split, label, _ in wanted}
    twice = [place for place, count in wanted.items() if count > 1]
    if twice:
        first, second = [i.source.where for i in items if (i.split, i.label, i.file) == twice[0]][:2]
        raise FrnError(
            f"{first} and {second} would both become {'/'.join(twice[0])} ({len(twice)} such files). Pass each source "
            "once, or rename one of the files."
        )
    # Training uses everything in the splits' folders, so other files are rejected.
    for split in {item.split for item in items}:
        for folder, subfolders, files in os.walk(out / split):
            subfolders[:] = [name for name in subfolders if name[0] != "."]
            above = (split,) if Path(folder) == out / split else (split, Path(folder).name)
            others = [name for name in (*subfolders, *files) if name[0] != "." and (*above, name) not in known]
            if others:
                raise FrnError(f"{folder}: already contains something else ({min(others)!r}). Give another --out.")
    for place in () if replace else (_path(item, out) for item in items if not _is_whole(item, out)):
        if os.path.lexists(place):
            raise FrnError(f"{place}: already exists and differs, and frn has no record of it. Give another --out.")


def count(items: Sequence[Item]) -> dict[str, tuple[int, int]]:
    """Return the number of classes and images of each split."""
    labels = {split: [item.label for item in items if item.split == split] for split in SPLITS}
    return {split: (len(set(found)), len(found)) for split, found in labels.items() if found}
