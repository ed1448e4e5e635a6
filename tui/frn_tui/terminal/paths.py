"""Paths from pasted or dropped text: terminals paste dropped files quoted, escaped or as `file://` URLs."""

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress

from frn.errors import FrnError
from frn.images.boxes import Box, box_name, path_of_url

try:
    AT_START = os.getcwd()  # noqa: PTH109
except OSError:  # already deleted
    AT_START = "/"


def absolute(path: str) -> str:
    """Return a typed path as an absolute one, without reading the disk: the working directory may be gone."""
    return os.path.normpath(os.path.join(AT_START, os.path.expanduser(path)))  # noqa: PTH111, PTH118


def parse_paths(text: str) -> list[str]:
    """Return the paths in a text.

    Each line is one path, even if it contains spaces, or several if they are quoted or their spaces are escaped.
    """
    return [path for line in text.splitlines() if line.strip() for path in _of_line(line.strip())]


def name_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def close_up(path: str, subject: Sequence[int]) -> tuple[str, list[int]]:
    """Return the name of the part of a photo around a box, and the box in pixels of this part."""
    if not subject:
        return path, []
    left, top, width, height = subject
    x, y = max(left - width // 6, 0), max(top - height // 6, 0)
    around = Box(x, y, left + width + width // 6 - x, top + height + height // 6 - y)
    return box_name(path, around), [left - x, top - y, width, height]


def shortened(path: str) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111  # this never fails
    return "~" + path.removeprefix(home) if path == home or path.startswith(f"{home}/") else path


def _of_line(line: str) -> list[str]:
    if line.lower().startswith("file:/"):
        with suppress(FrnError):  # on another machine: reported as a missing file
            return [path_of_url(word) for word in line.split()]
    if not any(character in line for character in "\\'\""):
        words = line.split(" /")  # dropped files: "/a b /c"; a single path has no " /"
        return [words[0], *("/" + word for word in words[1:])]
    try:
        words = shlex.split(line)
    except ValueError:  # an apostrophe in a name
        return [line]
    is_path = line[0] in "/~" and "\\" not in line  # then quotes belong to other paths or its name
    if is_path and (len(words) == 1 or not all(word.startswith(("/", "~")) for word in words)):
        return [line]
    return words
