"""Writer of data sets.

Images of benchmarks are written as stored, without the EXIF rotation that `frn.images` applies: boxes of CUB and
Aircraft are in stored coordinates, and the authors' scripts ignore EXIF tags.
"""

import io
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
from frn.system.hardware import cores

PIECE = 64  # number of images in memory at a time
MAX_PIXELS = 64_000_000  # pixel limit for a written image, because in-process encoding cannot be stopped
EXIF = b"Exif\0\0"  # beginning of the EXIF segment of a JPEG; without it, decoders skip the segment


def write_items(items: Sequence[Item], out: Path, progress: Progress | None = None, *, upright: bool = True) -> None:
    """Write every item to `out/split/label/file`.

    Unless `upright`, the EXIF rotation of copied JPEG files is disabled. Sources are read one after the other, in their
    own order; converting and writing use all cores. Raises FrnError if a file cannot be read, OSError if it cannot be
    written.
    """
    for split, label in {(item.split, item.label) for item in items}:
        (out / split / label).mkdir(parents=True, exist_ok=True)

    def write(item: Item, data: bytes) -> None:
        if item.box is not None:
            data = cropped_png(data, item.source.where, item.box)
        elif not upright:
            data = as_stored(data)
        with open(out / item.split / item.label / item.file, "xb") as file:
            file.write(data)

    ordered = sorted(items, key=lambda item: item.source.order)
    with ThreadPoolExecutor(cores()) as pool:
        for start in range(0, len(items), PIECE):
            piece = ordered[start : start + PIECE]
            for job in [pool.submit(write, item, item.source.read()) for item in piece]:
                job.result()
            if progress:
                progress(start + len(piece), len(items))


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


def require_distinct(items: Sequence[Item]) -> None:
    """Raise FrnError if two items share a place."""
    places = Counter((item.split, item.label, item.file) for item in items)
    if twice := [place for place, number in places.items() if number > 1]:
        first, second = [i.source.where for i in items if (i.split, i.label, i.file) == twice[0]][:2]
        raise FrnError(
            f"{first} and {second} would both become {'/'.join(twice[0])} ({len(twice)} such files). Pass each source "
            "once, or rename one of the files."
        )


def count(items: Sequence[Item]) -> dict[str, tuple[int, int]]:
    """Return the numbers of classes and photos of each split that has any."""
    labels = {split: [item.label for item in items if item.split == split] for split in SPLITS}
    return {split: (len(set(names)), len(names)) for split, names in labels.items() if names}
