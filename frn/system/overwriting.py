"""Rules for overwriting: empty files and files written by `frn` always, others on request, photos never."""

import re
import stat
from pathlib import Path

from frn.errors import FrnError

MARK = "Written by frn"
"""Mark in every page and image that we write; models and exported graphs record the program in their own fields."""

_READ = 1 << 16
"""Bytes at the start and end of a file in which the mark is searched."""
_OURS = re.compile(
    rb'Written by frn|\A.{8}\{"__metadata__":.*?"format": ?"frn-model"'
    rb"|\A\x08.\x12\x03frn|\A# An exported few-shot classifier",
    re.DOTALL,
)
_PHOTO = re.compile(
    rb"\xff\xd8\xff|\x89PNG|GIF8|BM....\0\0\0\0|II\*\0|MM\0\*|II\+\0|MM\0\+|8BPS|FUJIFILM|IIR[OS]|MMOR|IIU\0|\xff\x0a"
    rb"|\0\0\0\x0cJXL |\0\0\0\x0cjP  |RIFF....WEBP|....ftyp(avi[fs]|hei[cxfs]|hev[cx]|mif1|msf1|crx |heim|heis)",
    re.DOTALL,
)
"""Signatures of photos: JPEG, PNG, GIF, BMP, TIFF and raw formats, PSD, JPEG XL, JPEG 2000, WebP, AVIF, HEIF."""


def require_writable(path: Path, *, replace: bool = False) -> None:
    """Reject a path whose file must not be overwritten.

    Raises FrnError if the path is a folder, a photo, or, without `replace`, a file that `frn` did not write.
    """
    refuse_photo(path)
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise FrnError(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error})") from error
    if stat.S_ISDIR(status.st_mode):
        raise FrnError(f"{path}: is a folder; give a file name")
    if stat.S_ISREG(status.st_mode) and status.st_size and not (replace or is_ours(path)):
        raise FrnError(
            f"{path}: already exists, and frn did not write it. Give another name, or add --replace.",
            code="exists",
        )


def is_ours(path: Path) -> bool:
    """Return whether a file has the mark of `frn`."""
    return _OURS.search(_ends(path)) is not None


def refuse_photo(path: Path) -> None:
    """Raise FrnError if a path is a photo: an image that `frn` did not write."""
    if _PHOTO.match(_ends(path)) and not is_ours(path):
        raise FrnError(f"{path}: is a photo, and frn never overwrites photos. Give another name.")


def _ends(path: Path) -> bytes:
    """Return the first and last bytes of a regular file; empty if it is missing or unreadable."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return b""
        with path.open("rb") as file:
            beginning = file.read(_READ)
            file.seek(-min(_READ, file.seek(0, 2)), 2)
            return beginning + file.read()
    except (OSError, ValueError):
        return b""
