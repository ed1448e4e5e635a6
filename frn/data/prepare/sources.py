"""Files in folders and archives, read on demand: nothing is unpacked.

An archive's entry never becomes a path: benchmarks look up entries by name and choose where to write each file. An
entry that leads outside its archive, or is larger than any image data set needs, raises an error.
"""

import hashlib
import os
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from frn.data.pixel_cache import Progress
from frn.errors import FrnError, shorten
from frn.images.opening import MAX_PHOTO_BYTES
from frn.projects.folder_tree import is_of_the_system, looks_like_image, why_skipped
from frn.system.archives import DAMAGE, Limits, ZippedFiles, open_tar
from frn.system.files import is_file

MEBIBYTE = 1 << 20
ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source."""

    parts: tuple[str, ...]  # names from the source down to the file; an archive counts as a folder
    size: int  # size in bytes, or -1 if it is unknown before reading
    open: Callable[[], IO[bytes]]
    where: str  # name for messages
    order: tuple[int, int] = (0, 0)  # (archive, offset): in this order, a compressed archive is read once

    def read(self, limit: int = MAX_PHOTO_BYTES) -> bytes:
        """Return the content. Raises FrnError if the file is larger than `limit` bytes or damaged."""
        try:
            if self.size <= limit:
                with self.open() as file:
                    data = file.read(limit + 1)
                if len(data) <= limit:
                    return data
        except FrnError:
            raise
        except DAMAGE as error:
            raise FrnError(
                f"{self.where}: cannot be read, or is damaged ({shorten(error)}). Download it again."
            ) from error
        raise FrnError(f"{self.where}: is larger than {limit >> 20} MiB, the limit for such a file")


@dataclass
class Sources(ExitStack):
    """Folders, archives and loose files given by the user; it closes the archives that it opens."""

    paths: Sequence[Path]
    archives: re.Pattern[str] = re.compile(r".*\.zip", re.IGNORECASE)
    """Names of archives to open inside a folder; archives given by name are always opened."""
    checksums: Mapping[str, str] = field(default_factory=dict)  # MD5 of released archives, by file name
    unofficial: bool = False  # whether a different checksum is accepted
    progress: Progress = lambda done, total: None  # called with the finished and total MiB while an archive is read

    def __post_init__(self) -> None:
        super().__init__()
        self._archives = 0
        self._files: list[SourceFile] | None = None
        self._odd: list[str] = []

    def __str__(self) -> str:
        return ", ".join(map(str, self.paths))

    def files(self) -> list[SourceFile]:
        """Return every file of every source; loose files of a folder come before those of its archives.

        Raises FrnError if a source is missing or damaged, has a wrong checksum, or no file is found.
        """
        if self._files is None:
            self._files = [file for path in self.paths for file in self._walk(path)]
        if not self._files:
            raise FrnError(f"{self}: contains no files of this data set")
        return self._files

    def images(self) -> list[SourceFile]:
        """Return every image, sorted by its names. Raises FrnError as `files` does, or if there are no images."""
        images = [file for file in self.files() if looks_like_image(file.parts[-1])]
        if not images:
            others = self.skipped()
            raise FrnError(f"{self}: contains no images" + (f". {others[0]}" if others else ""))
        return sorted(images, key=lambda image: image.parts)

    def skipped(self) -> list[str]:
        """Return a sorted list of reasons, one for each file that is not an image and each entry that is not a file."""
        names = [(file.where, file.parts[-1]) for file in self.files()]
        others = [pair for pair in names if not looks_like_image(pair[1]) and not is_of_the_system(pair[1])]
        return sorted([*(f"{where}: is skipped: {why_skipped(name)}" for where, name in others), *self._odd])

    def _walk(self, source: Path) -> Iterator[SourceFile]:
        if source.is_dir():
            yield from self._walk_folder(source)
        elif not source.is_file():
            raise FrnError(f"{source}: no such file or folder")
        elif source.suffix.lower() in ARCHIVES:
            yield from self._walk_archive(source)
        else:
            yield _loose(source, (source.name,))

    def _walk_folder(self, source: Path) -> Iterator[SourceFile]:
        name, archives = source.resolve().name, []
        for folder, subfolders, files in os.walk(source):
            paths = {entry: Path(folder) / entry for entry in sorted(subfolders) if not is_of_the_system(entry)}
            links = [path for path in paths.values() if path.is_symlink()]  # os.walk does not follow them
            self._odd += [f"{path}: is skipped: it is a link to a folder" for path in links]
            subfolders[:] = paths
            for entry in sorted(entry for entry in files if entry[0] != "."):
                path = Path(folder) / entry
                if not is_file(path):  # a pipe or device may be endless
                    self._odd.append(f"{path}: is skipped: it is not a file, or a broken link")
                elif self.archives.fullmatch(entry) or entry in self.checksums:
                    archives.append(path)
                else:
                    yield _loose(path, (name, *path.relative_to(source).parts))
        for path in archives:
            yield from self._walk_archive(path)

    def _walk_archive(self, path: Path) -> Iterator[SourceFile]:
        self._check(path)
        self._archives += 1
        try:
            if zipfile.is_zipfile(path):
                yield from self._walk_zip(path)
            else:
                yield from self._walk_tar(path)
        except FrnError:
            raise
        except DAMAGE as error:
            what = _looks_like(path) or shorten(error)
            raise FrnError(f"{path}: is not a complete archive ({what}). Download it again.") from error

    def _walk_zip(self, path: Path) -> Iterator[SourceFile]:
        archive = ZippedFiles(path)
        self.enter_context(archive.zip)
        for parts, entry in archive.files.items():
            where, order = f"{path}: {entry.filename}", (self._archives, entry.header_offset)
            yield SourceFile((path.stem, *parts), entry.file_size, partial(archive.zip.open, entry), where, order)

    def _walk_tar(self, path: Path) -> Iterator[SourceFile]:
        """Yield the files of a tar, then its internal links."""
        raw, size = self.enter_context(path.open("rb")), path.stat().st_size
        archive, limits = self.enter_context(open_tar(raw)), Limits(path, size)
        stem = path.name.removesuffix(path.suffix).removesuffix(".tar")
        members: dict[str, SourceFile] = {}
        links: list[tuple[tuple[str, ...], str]] = []
        for count, member in enumerate(archive):
            parts = limits.check(member.name, member.size)
            if parts and (member.issym() or member.islnk()):
                base = posixpath.dirname(member.name) if member.issym() else ""
                target = limits.check(posixpath.normpath(posixpath.join(base, member.linkname)), 0)
                links.append((parts, "/".join(target)))
            elif parts and member.isfile():
                extract: Any = partial(archive.extractfile, member)  # never None, because it is a regular file
                order = (self._archives, member.offset_data)
                file = SourceFile((stem, *parts), member.size, extract, f"{path}: {member.name}", order)
                members["/".join(parts)] = file
                yield file
            if count % 256 == 0:
                self.progress(raw.tell() // MEBIBYTE, max(1, size // MEBIBYTE))
        for parts, name in links:
            if name in members:
                yield replace(members[name], parts=(stem, *parts))

    def _check(self, path: Path) -> None:
        expected = self.checksums.get(path.name)
        if expected is None or self.unofficial:
            return
        digest, total = hashlib.md5(usedforsecurity=False), max(1, path.stat().st_size // MEBIBYTE)
        with path.open("rb") as file:
            while block := file.read(8 * MEBIBYTE):
                digest.update(block)
                self.progress(file.tell() // MEBIBYTE, total)
        if (actual := digest.hexdigest()) != expected:
            what = _looks_like(path) or "Download it again, or accept it with --unofficial"
            raise FrnError(
                f"{path}: its MD5 checksum is {actual}, but the released {path.name} has {expected}. {what}."
            )


def _loose(path: Path, parts: tuple[str, ...]) -> SourceFile:
    return SourceFile(parts, path.stat().st_size, lambda: path.open("rb"), str(path))


def _looks_like(path: Path) -> str | None:
    with path.open("rb") as file:
        start = file.read(512).lstrip().lower()
    page = start.startswith((b"<!doctype", b"<html"))
    return "it is a web page: the site requires another step before the download" if page else None
