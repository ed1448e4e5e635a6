"""Whole photos, decoded at the required resolution and cached."""

from pathlib import Path

from frn.images.opening import decode_whole, read_file
from frn.images.transforms import Pixels
from frn.system.lru import ByteLimitedCache

MAX_CACHED = 32 << 20
"""Largest cache of pixels in bytes."""
SIDES = (128, 256, 512, 1024, 2048, 4096, 8192)
"""Sizes in pixels to which the longer side is decoded."""


class Photos:
    """Decodes photos, and reuses a cached one for other sizes or maps if it is fine enough."""

    def __init__(self) -> None:
        self._pixels: ByteLimitedCache[Pixels] = ByteLimitedCache(MAX_CACHED)
        self._sizes: dict[object, tuple[int, int]] = {}

    def get(self, name: str, longest: int) -> tuple[Pixels, tuple[int, int]]:
        """Return the pixels (h, w, 3) of a photo, and the width and height of the file's upright image.

        The longer side has at least `longest` pixels if the file has them. Raises FrnError if the file is damaged.
        """
        path = Path(name)
        wanted = [side for side in SIDES if side >= longest] or SIDES[-1:]
        try:
            status = path.stat()
        except (OSError, ValueError):  # reading reports the reason
            return decode_whole(read_file(path), path, wanted[0])
        version = name, status.st_size, status.st_mtime_ns
        for side in wanted:
            if (pixels := self._pixels.get((version, side))) is not None:
                return pixels, self._sizes[version]
        pixels, self._sizes[version] = decode_whole(read_file(path), path, wanted[0])
        self._pixels.put((version, wanted[0]), pixels)
        return pixels, self._sizes[version]
