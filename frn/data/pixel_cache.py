"""Cache of decoded pixels: one memory-mapped file per split.

A cache folder is named after its input: each file's path, size, modification time and change time, the transform, and
the format version. A changed data set therefore gets a new cache. A cache is written to a temporary folder, synced and
renamed. The lengths and checksums of a cache are verified, and a damaged cache is built again. If several ranks or runs
need the same cache, one builds it while the others wait. All pixels are verified at first use, and again after their
file has changed. If the caches exceed their limit, the least recently used pixels are removed (`frn.system.caches`).
"""

import contextlib
import hashlib
import json
import math
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frn.data.folders import ClassFolders
from frn.errors import FrnError
from frn.images.kinds import is_heif_readable
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform, Pixels, limit_shorter_side
from frn.projects.folder_tree import Broken
from frn.system import caches
from frn.system.file_sets import new_folder
from frn.system.files import beside, read_json
from frn.system.hardware import cores
from frn.system.processes.locks import lock

PIXEL_CACHE_VERSION = 4
Progress = Callable[[int, int], None]  # callback with the number of finished images and the total


@dataclass(frozen=True, slots=True)
class StoredImages:
    """The decoded images of a split, class by class, as one flat memory map."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]  # number of readable images per class
    heights: NDArray[np.int64]
    widths: NDArray[np.int64]
    pixels: Pixels  # all images concatenated, each (h, w, 3)
    broken: tuple[Broken, ...]  # files skipped in `sizes`, and entries of the class folders that are not images by name
    checksum: int = 0  # checksum of the pixels, if they come from files

    def __len__(self) -> int:
        return len(self.heights)

    @property
    def parts(self) -> tuple["StoredImages", ...]:
        """Data sets of these images; here only this one."""
        return (self,)

    @property
    def is_uniform(self) -> bool:
        return len(set(self.heights.tolist())) == 1 and len(set(self.widths.tolist())) == 1

    def images(self) -> Pixels:
        """Return all images as one array (n, h, w, 3). They must be uniform."""
        assert self.is_uniform
        return self.pixels.reshape(len(self), int(self.heights[0]), int(self.widths[0]), 3)

    def portion(self, places: range) -> "StoredImages":
        """Return consecutive uniform images, for feature extraction only: `sizes` still describes all of them."""
        if len(places) == len(self):
            return self
        part = slice(places.start, places.stop)
        pixels = self.images()[part].reshape(-1)
        return replace(self, heights=self.heights[part], widths=self.widths[part], pixels=pixels)

    def gather(self, indices: Sequence[int] | NDArray[np.int64]) -> tuple[Pixels, NDArray[np.int64]]:
        """Copy images to a canvas (n, H, W, 3), each at its top left; also return each (height, width), (n, 2)."""
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


@dataclass(frozen=True, slots=True)
class ConcatImages:
    """Images of several data sets for one training run, each under its own name; no episode mixes them."""

    parts: tuple[StoredImages, ...]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(size for part in self.parts for size in part.sizes)

    @property
    def broken(self) -> tuple[Broken, ...]:
        """Files skipped in `sizes`."""
        return tuple(entry for part in self.parts for entry in part.broken)

    def gather(self, indices: Sequence[int] | NDArray[np.int64]) -> tuple[Pixels, NDArray[np.int64]]:
        """Copy images into one canvas, as `StoredImages.gather` does."""
        chosen = np.asarray(indices)
        ends = np.cumsum([len(part) for part in self.parts])
        origin = np.searchsorted(ends, chosen, side="right")
        gathered = {
            int(i): self.parts[i].gather(chosen[origin == i] - (ends[i] - len(self.parts[i]))) for i in set(origin)
        }
        extents = np.empty((len(chosen), 2), dtype=np.int64)
        for i, (_, extent) in gathered.items():
            extents[origin == i] = extent
        canvas = np.zeros((len(chosen), *extents.max(axis=0), 3), dtype=np.uint8)
        for i, (pixels, _) in gathered.items():
            canvas[origin == i, : pixels.shape[1], : pixels.shape[2]] = pixels
        return canvas, extents


def load_images(
    folders: ClassFolders, transform: EvaluationTransform | int, *, progress: Progress | None = None
) -> StoredImages:
    """Return the pixels of a split from the cache, decoding it first if necessary.

    The transform may also be the length to which shorter sides are reduced, since training augments larger images.
    Raises FrnError if the cache cannot be written (disk full, no permission), or a class has no readable image.
    """
    paths = folders.paths
    limit = caches.limit_in_bytes()  # checked even if unused, to report a wrong limit immediately
    home = caches.cache_folder() / caches.IMAGES / _key(folders, paths, transform)
    stored = _open(home)
    if stored is None:
        try:
            caches.make_cache_folder()
            home.parent.mkdir(exist_ok=True)
            with lock(beside(home, "building"), folders.root, give_up_after=math.inf):
                stored = _open(home)
                if stored is None:
                    caches.discard(home)  # an incomplete cache
                    with new_folder(home) as work:
                        _build(work, folders, paths, transform, progress or (lambda done, total: None))
                    stored = _open(home)
        except OSError as error:
            raise FrnError(
                f"{home.parent}: the decoded images cannot be stored there ({error.strerror}). Free some space, or "
                "set FRN_CACHE to another folder."
            ) from error
        caches.trim(limit)
    if stored is None:
        raise FrnError(f"{home}: the new cache cannot be read. Set FRN_CACHE to a folder on another disk.")
    for name, size in zip(stored.names, stored.sizes, strict=True):
        if size == 0:
            first = next(entry.reason for entry in stored.broken if Path(entry.path).parent == Path(name))
            raise FrnError(f"{folders.root / name}: none of its images can be read; the first: {first}")
    return replace(stored, broken=stored.broken + folders.skipped)


def _decoded(path: Path, folders: ClassFolders, transform: EvaluationTransform | int) -> Pixels | Broken:
    try:
        image = open_image(path)
    except FrnError as error:
        return Broken(str(path.relative_to(folders.root)), str(error))
    return limit_shorter_side(image, transform) if isinstance(transform, int) else transform(image)


def _key(folders: ClassFolders, paths: list[Path], transform: EvaluationTransform | int) -> str:
    what = transform if isinstance(transform, int) else asdict(transform)
    made_by = ["heif"] if is_heif_readable() else []  # the extra makes more files readable
    digest = hashlib.sha256(json.dumps([PIXEL_CACHE_VERSION, what, str(folders.root.resolve()), *made_by]).encode())
    for path in paths:
        status = path.stat()
        # Programs cannot reset the change time, so it reveals a file that was rewritten with its old date.
        digest.update(
            f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ctime_ns}\n".encode(errors="replace")
        )
    return digest.hexdigest()[:24]


def _build(
    work: Path, folders: ClassFolders, paths: list[Path], transform: EvaluationTransform | int, progress: Progress
) -> None:
    decode = partial(_decoded, folders=folders, transform=transform)
    labels = [label for label, files in enumerate(folders.files) for _ in files]
    sizes = [0] * len(folders.names)
    shapes: list[tuple[int, int]] = []
    broken: list[Broken] = []
    checksum = 0
    with ThreadPoolExecutor(cores()) as pool, open(work / caches.PIXELS, "wb") as file:
        for start in range(0, len(paths), 1024):  # in chunks to bound the memory
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
    with open(work / caches.INDEX, "w", encoding="utf-8") as text:
        json.dump(index, text)


def _open(home: Path) -> StoredImages | None:
    """Open a cache; return None if it is missing or damaged."""
    try:
        index: dict[str, Any] = read_json(home / caches.INDEX, caches.MAX_INDEX)
        if index["version"] != PIXEL_CACHE_VERSION or index.pop("crc32") != _crc32_of(index):
            return None
        body = json.loads(index["body"])
        shapes = np.asarray(body["shapes"], dtype=np.int64).reshape(-1, 2)
        length = int(shapes.prod(axis=1).sum()) * 3
        file, stamp = home / caches.PIXELS, home / caches.USED
        status = file.stat()
        if status.st_size != length:
            return None
        pixels: Pixels = np.memmap(file, dtype=np.uint8, mode="r") if length else np.empty(0, dtype=np.uint8)
        state = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        # Pixels are compared with their checksum once; the stamp records the state that was checked.
        is_checked = stamp.is_file() and stamp.read_bytes() == state.encode()
        if not is_checked and zlib.crc32(pixels.data) != index["pixels_crc32"]:
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # a malformed index means a damaged cache
        return None
    with contextlib.suppress(OSError):  # the cache may be read-only
        stamp.write_text(state, encoding="utf-8")  # its date records the last use of the cache
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
    return zlib.crc32(json.dumps(index, sort_keys=True).encode())
