"""Photos given as command-line arguments or as a list on stdin."""

import codecs
import glob
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from frn.errors import FrnError
from frn.images.boxes import path_of_url, split_box
from frn.projects.folder_tree import photos_below
from frn.system.archives import zip_around
from frn.system.files import is_folder, is_there


def find_photos(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Find the photos for each argument: a file, all images in a folder or zip, a glob, or `-` for a list on stdin.

    Returns the names of the photos as given, and the reasons why files in folders were skipped. Names in a list are
    never expanded as globs. A name that is not a photo is reported in its place, and the other names are still
    processed. Raises FrnError if an argument matches nothing.
    """
    names: list[str] = []
    skipped: list[str] = []

    def add(name: str, *, needed: bool) -> None:
        """Add a photo, or those in a folder or zip; `needed`: an empty folder is an error."""
        if not (is_folder(name) or (name.lower().endswith(".zip") and is_there(name))):
            names.append(name)  # a missing file is reported in order
            return
        photos, others = photos_below(Path(name))
        if not photos and needed:
            raise FrnError(f"{name}: contains no images")
        start = name if name.endswith(os.sep) else name + os.sep
        names.extend(start + str(photo.relative_to(name)) for photo in photos)
        skipped.extend(map(str, others) if photos or others else [f"{name}: contains no images"])

    for word in words:
        if word == "-":
            before = len(names)
            for name in _listed():
                try:
                    add(path_of_url(name), needed=False)
                except FrnError:  # unreadable files are reported in order
                    names.append(name)
            if len(names) == before:
                raise FrnError("-: the folders listed on stdin contain no photos")
        elif is_there(str(split_box(word)[0])) or not glob.has_magic(word) or zip_around(Path(word)):
            add(word, needed=True)
        else:
            matches = [match for match in sorted(glob.glob(word, recursive=True)) if not is_folder(match)]
            if not matches:
                raise FrnError(f"{word}: no file matches")
            names += matches
    return names, skipped


def _listed() -> list[str]:
    """Return the names listed on stdin, one per line, or each terminated by NUL."""
    if sys.stdin is None:
        raise FrnError("-: stdin is closed")
    text = os.fsdecode(sys.stdin.buffer.read().removeprefix(codecs.BOM_UTF8))  # Windows editors may write this mark
    lines = text.split("\0") if "\0" in text else [line.removesuffix("\r") for line in text.split("\n")]
    if not any(lines):
        raise FrnError("-: stdin lists no photos. Give one per line.")
    return list(filter(None, lines))
