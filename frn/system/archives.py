"""Untrusted archives: the number of entries and their unpacked size are checked before unpacking.

A path may lead into a zip, as if it were a folder: `birds.zip/jay/1.jpg` (`find_zip`).
"""

import bz2
import gzip
import lzma
import re
import struct
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from frn.errors import FrnError, shorten
from frn.system.files import read_regular
from frn.system.processes.forks import after_fork

MAX_ENTRIES = 3_000_000  # maximum number of entries of an archive; all of ImageNet has 1.3 million images
MAX_ENTRY = 16 << 30  # largest entry in bytes; the largest known, tiered-ImageNet's training pickle, is 6 GB
MAX_ARCHIVE = 1 << 40  # maximum size of all entries together in bytes
FREE_ENTRIES, BYTES_PER_ENTRY = 100_000, 512
"""Number of entries allowed in any archive, and the archive bytes required for each further entry."""
FREE_BYTES, MAX_RATIO = 1 << 30, 50  # unpacked bytes allowed for any archive, and a further multiple of its own size
MAX_READ = 64 << 20  # maximum bytes that listing a tar may read at once, because a name or header may claim any length
MAX_DIRECTORY, DIRECTORY_SHARE = 8 << 20, 3
"""Maximum bytes of a zip's entry list: the first number, or the zip's size divided by the second if that is more."""

_COMPRESSED: tuple[tuple[bytes, Callable[[IO[bytes]], Any]], ...] = (
    (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\0", lzma.LZMAFile),
)

DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(OSError, EOFError, ValueError, KeyError, IndexError, OverflowError, RuntimeError),
)
"""Exceptions that a damaged archive causes in `tarfile`, `zipfile` and their decompressors.

These modules also raise Python's own errors, for example for a position before the file or a number without digits.
RuntimeError means that an entry is encrypted or compressed in an unknown way.
"""


@dataclass
class Limits:
    """Limits on the entries of an archive and of the archives inside it."""

    archive: object
    length: int  # size of the archive itself in bytes
    entries: int = 0
    size: int = 0

    def check(self, name: str, size: int) -> tuple[str, ...]:
        """Return an entry's path components; empty for hidden entries.

        Raises FrnError if the path leads out of the archive or exceeds the limits.
        """
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", name) or "\0" in name:
            raise FrnError(f"{self.archive}: {name!r} points outside the archive. The archive is not used.")
        if size < 0:
            raise FrnError(f"{self.archive}: is not a complete archive ({name!r} is {size} bytes). Download it again.")
        self.entries += 1
        self.size += size
        most = min(MAX_ENTRIES, FREE_ENTRIES + self.length // BYTES_PER_ENTRY)
        most_bytes = min(MAX_ARCHIVE, FREE_BYTES + MAX_RATIO * self.length)
        if self.entries > most or size > MAX_ENTRY or self.size > most_bytes:
            raise FrnError(
                f"{self.archive}: unpacks to more than an image data set needs, at {name!r}: limits are "
                f"{most:,} entries, {MAX_ENTRY >> 30} GiB each, {most_bytes / 2**30:.3g} GiB in all."
            )
        hidden = any(part[0] == "." or part == "__MACOSX" for part in path.parts)
        return () if hidden else path.parts


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open a zip. Raises FrnError if most of it is its entry list, which would take a minute to read."""
    size = path.stat().st_size
    with path.open("rb") as file:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    directory = end[zipfile._ECD_SIZE] if end else 0  # type: ignore[attr-defined]
    if directory > max(MAX_DIRECTORY, size // DIRECTORY_SHARE):
        raise FrnError(
            f"{path}: is almost only file names ({directory:,} of {size:,} bytes), unlike any image data set"
        )
    return zipfile.ZipFile(path)


class ZippedFiles:
    """Files of a zip by the parts of their paths; safe for several threads."""

    def __init__(self, path: Path) -> None:
        """List a zip. Raises FrnError if the zip is damaged or exceeds the limits."""
        self._lock = threading.Lock()
        self.files: dict[tuple[str, ...], zipfile.ZipInfo] = {}
        self.folders: dict[tuple[str, ...], set[str]] = {(): set()}  # names of the files and folders in each folder
        self.repeated: list[str] = []  # paths of files that the zip has more than once
        try:
            self.zip, limits = open_zip(path), Limits(path, path.stat().st_size)
            for info in self.zip.infolist():
                if parts := limits.check(_name(info), info.file_size):
                    if parts in self.files:
                        self.repeated.append(str(path.joinpath(*parts)))
                    if info.is_dir():
                        self.folders.setdefault(parts, set())
                    else:
                        self.files[parts] = info
                    for depth in range(len(parts)):
                        self.folders.setdefault(parts[:depth], set()).add(parts[depth])
        except DAMAGE as error:
            raise FrnError(f"{path}: is not a complete zip ({shorten(error)})") from error

    def read(self, parts: tuple[str, ...], where: Path, most: int) -> bytes:
        """Return the bytes of a file. Raises FrnError if it does not exist, is damaged or is larger than `most`."""
        if (info := self.files.get(parts)) is None:
            raise FrnError(f"{where}: cannot be read (the zip has no such file)")
        if info.file_size > most:
            raise FrnError(f"{where}: is {info.file_size / 2**20:.3g} MiB; the limit is {most / 2**20:.3g} MiB")
        try:
            with self._lock, self.zip.open(info) as file:
                return file.read(info.file_size)
        except DAMAGE as error:
            raise FrnError(f"{where}: cannot be read from the zip ({shorten(error)})") from error


def find_zip(path: Path) -> tuple[ZippedFiles, tuple[str, ...]] | None:
    """Return the zip that a path is or leads into, and the parts of the path inside it; None if there is none."""
    if (place := zip_around(path)) is None:
        return None
    status = place.stat()
    return _listed(place, status.st_size, status.st_mtime_ns), path.relative_to(place).parts


def read_whole(path: Path, most: int) -> bytes:
    """Read a regular file, which may be in a zip. Raises FrnError if it cannot be read or is larger than `most`."""
    inside = find_zip(path)
    return inside[0].read(inside[1], path, most) if inside and inside[1] else read_regular(path, most)


def is_listed(path: Path) -> bool:
    """Return whether a file exists, which may be in a zip."""
    inside = find_zip(path)
    return inside[1] in inside[0].files if inside else path.is_file()


def zip_around(path: Path) -> Path | None:
    """Return the zip that a path is or leads into, or None if there is none."""
    return next((p for p in (path, *path.parents) if p.suffix.lower() == ".zip" and p.is_file()), None)


@lru_cache(maxsize=4)
def _listed(path: Path, size: int, mtime_ns: int) -> ZippedFiles:
    return ZippedFiles(path)


after_fork(_listed, lambda opened: opened.cache_clear())  # a fork shares the positions in their files


def _name(info: zipfile.ZipInfo) -> str:
    """Return the name of an entry; some systems write UTF-8 without the flag for it."""
    if info.flag_bits & 0x800:
        return info.filename
    try:
        return info.filename.encode("cp437").decode()
    except ValueError:
        return info.filename


def open_tar(file: IO[bytes]) -> tarfile.TarFile:
    """Open a tar, compressed or not, with bounded reads; a damaged one may raise anything."""
    start = file.read(6)
    file.seek(0)
    plain = next((unpack(file) for magic, unpack in _COMPRESSED if start.startswith(magic)), file)
    return tarfile.open(fileobj=cast(IO[bytes], _Bounded(plain)), mode="r:")


class _Bounded:
    """A file that rejects reads larger than `MAX_READ`."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.seek, self.tell, self.seekable = file, file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_READ:
            raise tarfile.ReadError(f"a chunk of {size} bytes")
        return self.file.read(size)
