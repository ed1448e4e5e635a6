"""HEIC photos, common on phones: recognised by their first bytes, readable with the extra `heif`."""

import functools
from importlib.util import find_spec

from frn.errors import FrnError
from frn.system.extras import install_command

EXTENSIONS = frozenset({".heic", ".heif", ".hif"})
BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"})
"""Values of bytes 8 to 12. AVIF may start the same way, but lists itself among the compatible brands."""
FORMAT = "HEIF"
"""Pillow's name of the format after `register`."""


def is_heif(data: bytes) -> bool:
    """Return whether an image file is HEIC, regardless of its name."""
    brands = data[8 : min(int.from_bytes(data[:4]), 256)]
    return data[4:8] == b"ftyp" and brands[:4] in BRANDS and b"avif" not in brands


def is_readable() -> bool:
    """Return whether the extra is installed."""
    return find_spec("pi_heif") is not None


def require(data: bytes, where: str) -> None:
    """Raise FrnError for a HEIC photo if the extra is not installed."""
    if is_heif(data) and not is_readable():
        raise FrnError(
            f"{where}: is a HEIC photo; reading it needs pi-heif, which is not installed: {install_command('heif')}"
        )


@functools.cache
def register() -> None:
    """Register the format with Pillow."""
    from pi_heif import register_heif_opener

    register_heif_opener(thumbnails=False)
