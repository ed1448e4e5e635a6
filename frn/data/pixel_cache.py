"""Decode once: the pixels of a split in one memory-mapped file.

A cache is a folder named by what it was made from (each file's path, size and times of change, the transform, the
format version): a changed data set is another cache. It is written beside, synced and renamed, and carries lengths
and checksums: a stale or torn one is never opened, but built again. Of processes that want the same one, ranks or runs
that start side by side, one builds it while the others wait. All pixels are checked at the first opening, and again
whenever their file has changed since. The least recently used pixels are removed if a limit is passed
(`frn.system.caches`).
"""

import contextlib
import hashlib
import json
import math
import shutil
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frn.data.folders import Broken, ClassFolders
from frn.errors import FrnError, FrnWarning
from frn.images import heif
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform, Pixels, limit_shorter_side
from frn.system.caches import (
    IMAGES,
    INDEX,
    MAX_INDEX,
    PIXELS,
    USED,
    cache_folder,
    discard,
    limit_in_bytes,
    make_cache_folder,
    trim,
)
from frn.system.file_sets import new_folder
from frn.system.files import beside, read_json
from frn.system.hardware import cores
from frn.system.processes.locks import lock

PIXEL_CACHE_VERSION = 3
Progress = Callable[[int, int], None]
"""Called with images done and images in all."""


@dataclass(frozen=True, slots=True)
class StoredImages:
    """The decoded images of a split, class by class, as one flat memory map."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    """Readable images of each class."""
    heights: NDArray[np.int64]
    widths: NDArray[np.int64]
    pixels: Pixels
    """All images one after the other, each (h, w, 3)."""
    broken: tuple[Broken, ...]
    """Files skipped in `sizes`, and what in the class folders is not an image by its name."""
    checksum: int = 0
    """Checksum of the pixels, if they are from files."""

    def __len__(self) -> int:
        return len(self.heights)

    @property
    def parts(self) -> tuple["StoredImages", ...]:
        """The data sets that these images are from: one."""
        return (self,)

    @property
    def is_uniform(self) -> bool:
        """Return whether all images have the same size."""
        return len(set(self.heights.tolist())) == 1 and len(set(self.widths.tolist())) == 1

    def images(self) -> Pixels:
        """All images as one array (n, h, w, 3). They must be uniform."""
        assert self.is_uniform
        return self.pixels.reshape(len(self), int(self.heights[0]), int(self.widths[0]), 3)

    def portion(self, places: range) -> "StoredImages":
        """Consecutive uniform images, for feature extraction alone: `sizes` still describes all of them."""
        if len(places) == len(self):
            return self
        part = slice(places.start, places.stop)
        pixels = self.images()[part].reshape(-1)
        return replace(self, heights=self.heights[part], widths=self.widths[part], pixels=pixels)

    def gather(self, indices: Sequence[int] | NDArray[np.int64]) -> tuple[Pixels, NDArray[np.int64]]:
        """Copy images into one canvas (n, H, W, 3), each at its top left, with their (height, width) in (n, 2)."""
        chosen = np.asarray(indices)
        extents = np.stack([self.heights[chosen], self.widths[chosen]], axis=1)
        if self.is_uniform:
            return self.images()[chosen], extents
        lengths = self.heights * self.widths * 3
        ends = np.cumsum(lengths)
        canvas = np.zeros((len(chosen), *extents.max(axis=0), 3), dtype=np.uint8)
        for row, image in enumerate(chosen):
            h, w = extents[row]
            flat = self.pixels[ends[image] - lengths[image] : ends[image]]
            canvas[row, :h, :w] = flat.reshape(h, w, 3)
        return canvas, extents


def load_images(
    folders: ClassFolders, transform: EvaluationTransform | int, *, progress: Progress | None = None
) -> StoredImages:
    """Return the pixels of a split from the cache, decoding it first if it does not exist.

    The transform may be the length that shorter sides are scaled down to: training augments from larger images.
    FrnError if the cache cannot be written (disk full, no permission), or a class has no readable image.
    """
    paths = folders.paths
    limit = limit_in_bytes()  # whether it is used or not: what is wrong with it is told at once
    home = cache_folder() / IMAGES / _key(folders, paths, transform)
    stored = _open(home)
    if stored is None:
        try:
            make_cache_folder()
            home.parent.mkdir(exist_ok=True)
            with lock(beside(home, "building"), folders.root, give_up_after=math.inf):
                stored = _open(home)
                if stored is None:
                    _check_space(home.parent, folders, paths, transform)
                    discard(home)  # a torn one
                    with new_folder(home) as work:
                        _build(work, folders, paths, transform, progress or (lambda done, total: None))
                    stored = _open(home)
        except OSError as error:
            raise FrnError(
                f"{home.parent}: the decoded images cannot be stored there ({error.strerror}). Free some space, or "
                "set FRN_CACHE to another folder. `frn cache` shows what is there."
            ) from error
        trim(limit)
    if stored is None:
        raise FrnError(f"{home}: the cache cannot be read back. Set FRN_CACHE to a folder on another disk.")
    for name, size in zip(stored.names, stored.sizes, strict=True):
        if size == 0:
            first = next(entry.reason for entry in stored.broken if Path(entry.path).parent == Path(name))
            raise FrnError(f"{folders.root / name}: none of its images can be read, the first: {first}")
    return replace(stored, broken=stored.broken + folders.skipped)


LARGE = 20_000_000_000
"""Bytes of decoded images that are announced before they are written."""
SAMPLE = 32
"""Images that are decoded to know how large all of them will be."""


def _check_space(home: Path, folders: ClassFolders, paths: list[Path], transform: EvaluationTransform | int) -> None:
    """Refuse what will not fit on the disk, by an `FrnError`, and warn of what is large, before it is started."""
    if len(paths) <= SAMPLE:
        return
    sample = [_decoded(path, folders, transform) for path in paths[:: len(paths) // SAMPLE]]
    lengths = [image.size for image in sample if not isinstance(image, Broken)]
    needed = len(paths) * sum(lengths) // max(1, len(lengths))
    free = shutil.disk_usage(home).free
    told = f"{folders.root}: {len(paths):,} images take about {needed / 1e9:.1f} GB decoded in {home}, where "
    if needed > free:
        raise FrnError(f"{told}{free / 1e9:.1f} GB are free. Set FRN_CACHE to a folder on a larger disk.")
    if needed > LARGE:
        warnings.warn(f"{told}{free / 1e9:.0f} GB are free (FRN_CACHE names another folder)", FrnWarning, stacklevel=3)


def _decoded(path: Path, folders: ClassFolders, transform: EvaluationTransform | int) -> Pixels | Broken:
    try:
        image = open_image(path)
    except FrnError as error:
        return Broken(str(path.relative_to(folders.root)), str(error))
    return limit_shorter_side(image, transform) if isinstance(transform, int) else transform(image)


def _key(folders: ClassFolders, paths: list[Path], transform: EvaluationTransform | int) -> str:
    what = transform if isinstance(transform, int) else asdict(transform)
    made_by = ["heif"] if heif.is_readable() else []  # with it more files can be read
    digest = hashlib.sha256(json.dumps([PIXEL_CACHE_VERSION, what, str(folders.root.resolve()), *made_by]).encode())
    for path in paths:
        status = path.stat()
        # The change time cannot be set back by a program, so a file rewritten under its old date is seen.
        digest.update(
            f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ctime_ns}\n".encode(errors="replace")
        )
    return digest.hexdigest()[:24]


def _build(
    work: Path, folders: ClassFolders, paths: list[Path], transform: EvaluationTransform | int, progress: Progress
) -> None:
    """Decode all images into a folder."""
    decode = partial(_decoded, folders=folders, transform=transform)
    labels = [label for label, files in enumerate(folders.files) for _ in files]
    sizes = [0] * len(folders.names)
    shapes: list[tuple[int, int]] = []
    broken: list[Broken] = []
    checksum = 0
    with _pool() as pool, open(work / PIXELS, "wb") as file:
        for start in range(0, len(paths), 1024):  # in pieces, so that memory stays bounded
            piece = paths[start : start + 1024]
            for offset, result in enumerate(pool.map(decode, piece)):
                if isinstance(result, Broken):
                    broken.append(result)
                    continue
                sizes[labels[start + offset]] += 1
                shapes.append(result.shape[:2])
                data = np.ascontiguousarray(result).tobytes()
                checksum = zlib.crc32(data, checksum)
                file.write(data)
            progress(start + len(piece), len(paths))
    body = json.dumps({"names": folders.names, "sizes": sizes, "shapes": shapes, "broken": [asdict(b) for b in broken]})
    of = str(folders.root.resolve())
    index = {"version": PIXEL_CACHE_VERSION, "of": of, "pixels_crc32": checksum, "body": body}
    index["crc32"] = _crc32_of(index)
    with open(work / INDEX, "w", encoding="utf-8") as text:
        json.dump(index, text)


@contextlib.contextmanager
def _pool() -> Iterator[ThreadPoolExecutor]:
    """Threads that are left at once where something is raised: an interrupt does not wait for a thousand photos."""
    pool = ThreadPoolExecutor(cores())
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _open(home: Path) -> StoredImages | None:
    """Return the cache, or None if it does not exist or it is not whole."""
    try:
        index: dict[str, Any] = read_json(home / INDEX, MAX_INDEX)
        if index["version"] != PIXEL_CACHE_VERSION or index.pop("crc32") != _crc32_of(index):
            return None
        body = json.loads(index["body"])
        shapes = np.asarray(body["shapes"], dtype=np.int64).reshape(-1, 2)
        length = int(shapes.prod(axis=1).sum()) * 3
        if (home / PIXELS).stat().st_size != length:
            return None
        pixels: Pixels = np.memmap(home / PIXELS, dtype=np.uint8, mode="r") if length else np.empty(0, dtype=np.uint8)
        status, stamp = (home / PIXELS).stat(), home / USED
        state = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        # Pixels are compared with their checksum once; the stamp says of which state that was.
        is_checked = stamp.is_file() and stamp.read_bytes() == state.encode()
        if not is_checked and _crc32(pixels) != index["pixels_crc32"]:
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # from here on all is as it was written
        return None
    with contextlib.suppress(OSError):  # a cache that others keep
        stamp.write_text(state, encoding="utf-8")  # its date tells what has been unused for the longest
    return StoredImages(
        names=tuple(body["names"]),
        sizes=tuple(body["sizes"]),
        heights=shapes[:, 0],
        widths=shapes[:, 1],
        pixels=pixels,
        broken=tuple(Broken(**entry) for entry in body["broken"]),
        checksum=index["pixels_crc32"],
    )


def _crc32_of(index: dict[str, Any]) -> int:
    """Checksum over all that an index says."""
    return zlib.crc32(json.dumps(index, sort_keys=True).encode())


def _crc32(pixels: Pixels) -> int:
    checksum = 0
    for start in range(0, len(pixels), 1 << 24):
        checksum = zlib.crc32(pixels[start : start + (1 << 24)].data, checksum)
    return checksum
