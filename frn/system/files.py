"""File access: bounded reads, and writes that leave the old or the new file even if killed or the disk fills up.

Every writer passes `replacing` or `open_to_append`. Empty files and files of the same kind that `frn` wrote are
overwritten, others on request, photos never. A file's other names (hard links) keep their content.
"""

import contextlib
import json
import os
import re
import shutil
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from frn.errors import FrnError, shorten
from frn.system.processes.locks import Lock, lock, require_lock

LOCK, PART = "frn-lock", "frn-part"
"""Suffixes of the files next to a file or folder while it is written: its lock and its new content."""
MAX_LINES = 1 << 30  # size limit for a growing file of lines: the metrics of ten million steps
MARK = "Written by frn"
"""Mark in every page and image that we write; models and exported graphs record the program in their own fields."""

_READ = 1 << 16  # bytes at the start and end of a file in which the mark is searched
_OURS = re.compile(
    rb'(Written by frn)|\A(.{8}\{"__metadata__":.*?"format": ?"frn-model")'
    rb"|\A(\x08.\x12\x03frn)|\A(# An exported few-shot classifier)",
    re.DOTALL,
)
_PHOTO = re.compile(
    rb"\xff\xd8\xff|\x89PNG|GIF8|BM....\0\0\0\0|II\*\0|MM\0\*|II\+\0|MM\0\+|8BPS|FUJIFILM|IIR[OS]|MMOR|IIU\0|\xff\x0a"
    rb"|P[1-6]\s|\0\0\0\x0cJXL |\0\0\0\x0cjP  |RIFF....WEBP"
    rb"|....ftyp(avi[fs]|hei[cxfs]|hev[cx]|mif1|msf1|crx |heim|heis)",
    re.DOTALL,
)
"""Signatures of photos: JPEG, PNG, GIF, BMP, TIFF and raw formats, PSD, PPM, JPEG XL, JPEG 2000, WebP, AVIF, HEIF."""


def write_atomically(
    path: Path,
    content: bytes | str,
    *,
    check: Callable[[], object] | None = None,
    like: Path | None = None,
    replace: bool | None = None,
) -> None:
    """Write a file completely or not at all, see `replacing`.

    Text that UTF-8 cannot encode, such as a file name that is not UTF-8, is escaped so that JSON can read it back.
    """
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    with replacing(path, check=check, like=like, replace=replace) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(
    path: Path, *, check: Callable[[], object] | None = None, like: Path | None = None, replace: bool | None = None
) -> Iterator[IO[bytes]]:
    """Yield a file beside `path` to write into; at the end it is synced and renamed over `path`.

    A missing folder is created. A link is kept and its target replaced. A new file has the umask's mode, an existing
    one that of `like`, by default its own. `check` is called first, while no other process writes `path`. `replace`
    says that the file may be overwritten although it has no mark of `frn`, see `require_writable`. An exception in the
    block leaves `path` unchanged. Raises FrnError if it cannot be written or must not be overwritten.
    """
    try:
        if is_there(path) and not path.is_file() and not path.is_dir():
            raise FrnError(f"{path}: is a device or pipe, which writing would replace. Give another name.")
        place = Path(os.path.realpath(path)) if path.is_symlink() else path
        with lock(beside(place, LOCK), path):  # also creates the folder
            refuse_photo(place)
            if check is not None:
                check()
            if not replace and place.is_file():
                require_writable(place, replace=replace)
            with _filled(place, like or place) as file:
                yield file
                file.flush()
                if not replace:  # the mark is in the first and last bytes
                    _refuse_kind(place, beside(place, PART))
    except OSError as error:
        raise FrnError(f"{path}: cannot be written ({error.strerror or error})") from error


@contextlib.contextmanager
def _filled(place: Path, model: Path) -> Iterator[IO[bytes]]:
    """Yield the part file of `place`, which is then renamed over it; its lock must be held."""
    part = beside(place, PART)
    remove(part)
    try:
        mode = stat.S_IMODE(model.stat().st_mode) if model.exists() else None
        with _create(part, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, place)
    finally:
        remove(part)
    sync_path(place.parent)


def open_to_append(path: Path, mode: int = 0o666) -> IO[bytes]:
    """Open or create a file of lines to read and append to; the lock is the caller's.

    If the file has other names, it becomes a copy first, so that these keep their content. Raises OSError if it cannot
    be opened, FrnError if it is a photo.
    """
    place = Path(os.path.realpath(path))
    refuse_photo(place)
    if place.is_file() and place.stat().st_nlink > 1:
        with _filled(place, place) as copy, place.open("rb") as file:
            shutil.copyfileobj(file, copy)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(place, flags, mode), "a+b")


def require_writable(path: Path, *, replace: bool | None = None) -> None:
    """Reject a path that cannot be written, or whose file must not be overwritten.

    Raises FrnError if the path is a folder, a photo, or, without `replace`, a file without a mark of `frn`. `None`
    means that the command has no option for it.
    """
    refuse_photo(path)
    try:
        require_lock(beside(Path(os.path.realpath(path)), LOCK))
        status = path.stat()
    except FileNotFoundError:
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        if not os.access(folder, os.W_OK):
            raise FrnError(f"{path}: cannot be written (no permission for {folder})") from None
        return
    except (OSError, ValueError) as error:
        raise FrnError(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error})") from error
    if stat.S_ISDIR(status.st_mode):
        raise FrnError(f"{path}: is a folder; give a file name")
    if stat.S_ISREG(status.st_mode) and status.st_size and not (replace or is_ours(path)):
        option = "" if replace is None else ", or add --replace"
        raise FrnError(f"{path}: already exists. Give another name{option}.", code="exists")


def is_ours(path: Path) -> bool:
    """Return whether a file has the mark of `frn`."""
    return _kind(path) is not None


def _kind(path: Path) -> tuple[int | None, bytes] | None:
    """Return the kind of a file of `frn`: which mark it has and, for text, its first byte; None for other files."""
    mark = _OURS.search(data := _ends(path))
    return mark and (mark.lastindex, data[: mark.lastindex == 1])  # a model starts with the length of its header


def _refuse_kind(place: Path, part: Path) -> None:
    """Raise FrnError if a file of `frn` would be replaced by one of another kind, such as a page by a model."""
    old, new = _kind(place), _kind(part)
    if old is not None and new is not None and old != new:
        raise FrnError(f"{place}: already exists and is a file of another kind. Give another name.", code="exists")


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


def beside(path: Path, ending: str) -> Path:
    """Return the path of a lock or part file for a file or folder that is being written."""
    name = path.name
    # Longest name in bytes that leaves room for the names of lock and part files; systems allow 255
    if len(encoded := os.fsencode(name)) > 240:
        name = f"{name[:40]}-{zlib.crc32(encoded):08x}"
    return path.with_name(f".{name}.{ending}")


def _create(part: Path, mode: int | None) -> IO[bytes]:
    """Create a file with this mode, or the umask's, which is not read because that changes it for all threads."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(part, flags, 0o666 if mode is None else 0o600), "wb")
    if mode is not None:
        with contextlib.suppress(OSError):  # some file systems have no modes
            os.chmod(part, mode)  # noqa: PTH101
    return file


def remove(path: Path) -> None:
    """Remove the part file or folder of an interrupted write; for a link, only the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def remove_unfinished(path: Path) -> None:
    """Remove what a killed program left next to a file or folder, unless another program is writing it."""
    part, lock_file = beside(path, PART), beside(path, LOCK)
    if not (os.path.lexists(part) or os.path.lexists(lock_file)):
        return  # a kill while the lock is held would leave its file
    held = Lock(lock_file)
    with contextlib.suppress(OSError):
        if held.acquire():
            try:
                remove(part)
            finally:
                held.release()


is_folder, is_file, is_there = os.path.isdir, os.path.isfile, os.path.exists
"""`Path.is_dir`, `is_file` and `exists`, but False instead of an exception, for example for a name that is too long."""


def read_regular(path: Path, most: int) -> bytes:
    """Return the bytes of a regular file; pipes and devices, which may have no end, are rejected.

    Raises FrnError if the file is missing, cannot be read, is not a regular file, or is larger than `most` bytes.
    """
    try:
        # O_NONBLOCK: otherwise opening a pipe without a writer would block.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            _require_regular(status, path, most)
            return file.read(status.st_size)
    except FrnError:
        raise
    except (OSError, ValueError) as error:  # a name with a NUL raises ValueError
        raise FrnError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def _require_regular(status: os.stat_result, path: Path, most: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise FrnError(f"{path}: is not a regular file")
    if status.st_size > most:
        raise FrnError(f"{path}: is {status.st_size / 2**20:.3g} MiB; the limit is {most / 2**20:.3g} MiB")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    import hashlib  # loads OpenSSL

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_regular(path: Path, most: int) -> Path:
    """Return the path of a file for a library to open; it is not read here.

    Raises FrnError as `read_regular` does.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise FrnError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    _require_regular(status, path, most)
    return path


def read_json(path: Path, most: int = 64 << 20) -> Any:  # default size limit of a small file of ours
    """Return the value of a JSON file. Raises FrnError as `read_regular` does, or if it is not JSON."""
    data = read_regular(path, most)
    try:
        return decode_json(data)
    except FrnError as error:
        raise FrnError(f"{path}: {error}") from error


def decode_json(data: bytes) -> Any:
    """Return the value of a JSON text. Raises FrnError if the text is not JSON or nested too deeply."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FrnError(f"it is not JSON ({shorten(error)})") from error


def discard_output(descriptor: int) -> None:
    """Discard unwritten output; otherwise Python would try to write it again at exit and return status 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def sync_path(path: Path) -> None:
    """Sync a file, or the names in a folder, so that they survive a power cut."""
    if os.name == "nt" and path.is_dir():  # Windows cannot open a folder
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
