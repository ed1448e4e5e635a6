"""HEIC photos, which telephones make: told by their first bytes, read where the extra `heif` is installed."""

import functools
from importlib.util import find_spec

from frn.errors import FrnError
from frn.system.extras import install_command

EXTENSIONS = frozenset({".heic", ".heif", ".hif"})
BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"})
"""Bytes 8 to 12 of such a file. AVIF may also begin like that, but names itself among the compatible brands."""
FORMAT = "HEIF"
"""Pillow's name of the format, once `register` has been called."""


def is_heif(data: bytes) -> bool:
    """Return whether an image file is HEIC, whatever its name."""
    brands = data[8 : min(int.from_bytes(data[:4]), 256)]
    return data[4:8] == b"ftyp" and brands[:4] in BRANDS and b"avif" not in brands


def is_readable() -> bool:
    """Return whether the extra is installed."""
    return find_spec("pi_heif") is not None


def require(data: bytes, where: str) -> None:
    """Refuse a HEIC photo that nothing here reads, by an `FrnError`."""
    if is_heif(data) and not is_readable():
        raise FrnError(
            f"{where}: is a HEIC photo; reading it takes pi-heif, which is not here: {install_command('heif')}"
        )


@functools.cache
def register() -> None:
    """Have Pillow read them."""
    from pi_heif import register_heif_opener

    register_heif_opener(thumbnails=False)
