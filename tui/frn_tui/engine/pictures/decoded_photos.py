"""Whole photos, decoded as finely as somebody wants to see them, and kept for a while."""

from pathlib import Path
from typing import NamedTuple

from frn.images.opening import decode_whole, read_file
from frn.images.transforms import Pixels
from frn.system.lru import ByteLimitedCache

MAX_CACHED = 32 << 20
"""Bytes of pixels to keep."""
SIDES = (128, 256, 512, 1024, 2048, 4096, 8192)
"""Pixels that the longer side is decoded to."""


class Photo(NamedTuple):
    """A photo as it was decoded."""

    pixels: Pixels
    """(h, w, 3); may be coarser than the file."""
    size: tuple[int, int]
    """Width and height of the file's image, upright."""


class Photos:
    """Decodes photos. The same one in another size, or under another map, comes at once if it was fine enough."""

    def __init__(self) -> None:
        self._pixels: ByteLimitedCache[Pixels] = ByteLimitedCache(MAX_CACHED)
        self._sizes: dict[object, tuple[int, int]] = {}

    def get(self, name: str, longest: int) -> Photo:
        """The photo; its longer side has at least `longest` pixels if the file has them. FrnError if it is damaged."""
        path = Path(name)
        wanted = [side for side in SIDES if side >= longest] or SIDES[-1:]
        try:
            status = path.stat()
        except (OSError, ValueError):  # reading it says why
            return Photo(*decode_whole(read_file(path), path, wanted[0]))
        version = name, status.st_size, status.st_mtime_ns
        for side in wanted:
            pixels = self._pixels.get((version, side))
            if pixels is not None:
                return Photo(pixels, self._sizes[version])
        pixels, self._sizes[version] = decode_whole(read_file(path), path, wanted[0])
        self._pixels.put((version, wanted[0]), pixels)
        return Photo(pixels, self._sizes[version])
