"""Photos given as command-line arguments or as a list on stdin."""

import codecs
import glob
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from frn.errors import FrnError
from frn.images.boxes import path_of_url, split_box
from frn.projects.folder_tree import photos_below
from frn.system.archives import zip_around
from frn.system.files import is_folder, is_there

Found = tuple[list[str], list[str]]
"""Names of photos as given, and the reasons why files in the given folders were skipped."""


def find_photos(words: Sequence[str]) -> Found:
    """Find the photos for each argument: a file, all images in a folder or zip, a glob, or `-` for a list on stdin.

    Raises FrnError if an argument matches nothing. Names in a list are never expanded as globs. A name that is not a
    photo is reported in its place, and the other names are still processed.
    """
    names: list[str] = []
    skipped: list[str] = []
    for word in words:
        photos, others = _in_list(_listed()) if word == "-" else _meant(word)
        names += photos
        skipped += others
    return names, skipped


def _meant(word: str) -> Found:
    if _is_many(word):
        if not (photos := _in_folder(word))[0]:
            raise FrnError(f"{word}: contains no images")
        return photos
    if is_there(str(split_box(word)[0])) or not glob.has_magic(word) or zip_around(Path(word)):
        return [word], []  # missing files are reported in order
    matches = [match for match in sorted(glob.glob(word, recursive=True)) if not is_folder(match)]
    if not matches:
        raise FrnError(f"{word}: no file matches")
    return matches, []


def _is_many(name: str) -> bool:
    return is_folder(name) or (name.lower().endswith(".zip") and is_there(name))


def _in_folder(folder: str) -> Found:
    photos, skipped = photos_below(Path(folder))
    start = folder if folder.endswith(os.sep) else folder + os.sep
    return [start + str(photo.relative_to(folder)) for photo in photos], list(map(str, skipped))


def _in_list(listed: Iterable[str]) -> Found:
    names: list[str] = []
    skipped: list[str] = []
    for name in listed:
        try:
            photos, others = _in_folder(name) if _is_many(name) else ([path_of_url(name)], [])
        except FrnError:  # unreadable files are reported in order
            photos, others = [name], []
        names += photos
        skipped += others if photos or others else [f"{name}: contains no images"]
    if not names:
        raise FrnError("-: the folders listed on stdin contain no photos")
    return names, skipped


def _listed() -> list[str]:
    """Return the names listed on stdin, one per line, or each terminated by NUL."""
    if sys.stdin is None:
        raise FrnError("-: stdin is closed")
    text = os.fsdecode(
        sys.stdin.buffer.read().removeprefix(codecs.BOM_UTF8)
    )  # Windows editors may start a file with this mark
    lines = text.split("\0") if "\0" in text else [line.removesuffix("\r") for line in text.split("\n")]
    if not any(lines):
        raise FrnError("-: stdin lists no photos. Give one per line.")
    return list(filter(None, lines))
