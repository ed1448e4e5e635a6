"""Writer of data sets: interrupted calls can continue, and repeated calls change nothing.

A file that is already in its place is compared with its source by content. If they differ, it is kept and reported: it
may have been rotated or replaced by the user.

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
from frn.images.opening import MAX_BYTES, decode_stored
from frn.system.files import is_file, read_regular, remove_unfinished, write_atomically
from frn.system.hardware import cores

PIECE = 64
"""Number of images in memory at a time."""
MAX_PIXELS = 64_000_000
"""Pixel limit for a written image, because in-process encoding cannot be stopped."""
PNG = b"\x89PNG"
"""Signature of a PNG file."""
EXIF = b"Exif\0\0"
"""Beginning of the EXIF segment of a JPEG; without it, decoders skip the segment."""


def write_items(
    items: Sequence[Item], out: Path, progress: Progress | None = None, *, upright: bool = True
) -> list[Path]:
    """Write every missing or empty item to `out/split/label/file`; return the files that differ, which are kept.

    Unless `upright`, the EXIF rotation of copied JPEG files is disabled. Sources are read one after the other, in their
    own order; converting and writing use all cores. Raises FrnError if a file cannot be read or written.
    """
    differing: list[Path] = []
    for item in items:
        remove_unfinished(_path(item, out))
    ordered = sorted(items, key=lambda item: item.source.order)
    with ThreadPoolExecutor(cores()) as pool:
        for start in range(0, len(items), PIECE):
            piece = ordered[start : start + PIECE]
            jobs = [pool.submit(_write, item, item.source.read(), _path(item, out), upright) for item in piece]
            differing += [_path(item, out) for item, job in zip(piece, jobs, strict=True) if not job.result()]
            if progress:
                progress(start + len(piece), len(items))
    return sorted(differing)


def _write(item: Item, data: bytes, path: Path, upright: bool) -> bool:
    """Write an item unless its file exists; return whether the file has its content."""
    data = _content(item, data, upright)
    if _exists(path):
        return _is_same(path, data)
    write_atomically(path, data)
    return True


def _content(item: Item, data: bytes, upright: bool) -> bytes:
    if item.box is not None:
        return cropped_png(data, item.source.where, item.box)
    return data if upright else as_stored(data)


def _exists(path: Path) -> bool:
    """Return whether anything is there, except for an empty file, which may be written."""
    return os.path.lexists(path) and not (is_file(path) and not path.stat().st_size)


def _is_same(path: Path, data: bytes) -> bool:
    with contextlib.suppress(FrnError):  # a folder, a broken link, or not an image
        existing = read_regular(path, MAX_BYTES)
        return existing == data or (data.startswith(PNG) and _pixels(existing, path) == _pixels(data, path))
    return False


def _pixels(data: bytes, path: Path) -> tuple[str, tuple[int, int], bytes]:
    """Return what is compared of a PNG, which other versions of Pillow compress otherwise."""
    image = decode_stored(data, str(path))
    return image.mode, image.size, image.tobytes()


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
    # The EXIF segment is near the start of the file; some photos have a JFIF header before it
    start = data.find(EXIF, 0, 1 << 16) if data.startswith(b"\xff\xd8") else -1
    return data if start < 0 else data[:start] + bytes(len(EXIF)) + data[start + len(EXIF) :]


def _path(item: Item, out: Path) -> Path:
    return out / item.split / item.label / item.file


def check_places(items: Sequence[Item], out: Path, *, is_known: bool = False, upright: bool = True) -> None:
    """Check that every item has its own place, and that the folder has no other files.

    Raises FrnError if two items share a place, or `out` contains other files; unless `out` is known to be this data
    set, also if files with the same names differ.
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
    for item in () if is_known else items:
        place = _path(item, out)
        if _exists(place) and not _is_same(place, _content(item, item.source.read(), upright)):
            raise FrnError(f"{place}: already exists and differs, and frn has no record of it. Give another --out.")


def count(items: Sequence[Item]) -> dict[str, tuple[int, int]]:
    """Return the number of classes and images of each split."""
    labels = {split: [item.label for item in items if item.split == split] for split in SPLITS}
    return {split: (len(set(names)), len(names)) for split, names in labels.items() if names}
