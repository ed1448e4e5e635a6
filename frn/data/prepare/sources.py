"""Images in folders and archives, as (where, how to read): nothing is unpacked before it is wanted."""

import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from frn.errors import FrnError
from frn.images import EXTENSIONS, MAX_BYTES


@dataclass(frozen=True, slots=True)
class Item:
    """One image of a data set to be."""

    split: str
    label: str
    """Name of its class folder."""
    file: str
    size: int
    """Bytes, or -1 where only reading tells."""
    read: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Found:
    """One image of a source."""

    parts: tuple[str, ...]
    """Names from the source's own down to the file's; an archive counts as a folder."""
    size: int
    read: Callable[[], bytes]


def find_images(sources: Sequence[Path]) -> list[Found]:
    """Every image in folders and zips, and in zips inside folders, sorted.

    Raises:
        FrnError: if a source is missing, is no archive, or nothing is found.
    """
    found = [image for source in sources for image in _walk(source)]
    if not found:
        raise FrnError(f"{', '.join(map(str, sources))}: no images in there")
    return sorted(found, key=lambda image: image.parts)


def _walk(source: Path) -> Iterator[Found]:
    if source.is_dir():
        for folder, subfolders, files in os.walk(source):
            subfolders[:] = sorted(name for name in subfolders if name[0] != ".")
            for name in sorted(files):
                path = Path(folder) / name
                if path.suffix.lower() == ".zip":
                    yield from _walk_zip(path)
                elif path.suffix.lower() in EXTENSIONS and name[0] != ".":
                    yield Found((source.name, *path.relative_to(source).parts), path.stat().st_size, path.read_bytes)
    elif source.suffix.lower() == ".zip":
        yield from _walk_zip(source)
    elif source.exists():
        raise FrnError(f"{source}: is neither a folder nor a .zip of class folders")
    else:
        raise FrnError(f"{source}: there is no such file or folder")


def _walk_zip(path: Path) -> Iterator[Found]:
    archive = open_zip(path)
    for entry in archive.infolist():
        parts = PurePosixPath(entry.filename).parts
        hidden = any(part[0] == "." or part == "__MACOSX" for part in parts)
        if entry.is_dir() or hidden or PurePosixPath(entry.filename).suffix.lower() not in EXTENSIONS:
            continue
        if entry.file_size > MAX_BYTES:
            raise FrnError(
                f"{path}: {entry.filename} unpacks to {entry.file_size >> 20} MiB; the limit is {MAX_BYTES >> 20}"
            )
        yield Found((path.stem, *parts), entry.file_size, _zip_reader(archive, entry))


def _zip_reader(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            return archive.read(entry)
        except (zipfile.BadZipFile, RuntimeError, EOFError, OSError) as error:
            raise FrnError(
                f"{archive.filename}: {entry.filename} is damaged ({error}). Fetch the archive again."
            ) from error

    return read


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open a zip archive.

    Raises:
        FrnError: if it is missing or no zip, saying what it looks like instead.
    """
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise FrnError(f"{path}: there is no such file") from error
    except (zipfile.BadZipFile, OSError) as error:
        raise FrnError(f"{path}: is not a whole zip archive ({_looks_like(path) or error}). Fetch it again.") from error


def open_tar(path: Path) -> tarfile.TarFile:
    """Open a tar archive, compressed or not.

    Raises:
        FrnError: if it is missing or no tar, saying what it looks like instead.
    """
    try:
        return tarfile.open(path)
    except FileNotFoundError as error:
        raise FrnError(f"{path}: there is no such file") from error
    except (tarfile.TarError, OSError, EOFError) as error:
        raise FrnError(f"{path}: is not a whole tar archive ({_looks_like(path) or error}). Fetch it again.") from error


def _looks_like(path: Path) -> str | None:
    try:
        with open(path, "rb") as file:
            start = file.read(512).lstrip().lower()
    except OSError:
        return None
    return "it is a web page: the download asked for something" if start.startswith((b"<!doctype", b"<html")) else None
