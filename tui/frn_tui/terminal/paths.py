"""Paths out of pasted or dropped text: terminals paste dropped files quoted, escaped, or as `file://` URLs."""

import os
import re
import shlex
from urllib.parse import unquote, urlsplit

try:
    AT_START = os.getcwd()  # noqa: PTH109
except OSError:  # it is gone already
    AT_START = "/"


def absolute(path: str) -> str:
    """A typed path as it is meant, wherever the app runs next time; the disk is not asked."""
    expanded = os.path.expanduser(path)  # noqa: PTH111  # this never fails
    try:
        return os.path.abspath(expanded)  # noqa: PTH100
    except OSError:  # the folder that the app was started in is gone
        return os.path.normpath(os.path.join(AT_START, expanded))  # noqa: PTH118


def parse_paths(text: str) -> list[str]:
    """The paths that a piece of text names.

    One per line; a line may hold several if they are quoted or have their blanks escaped. A line that is a plain
    path with blanks in it is one path.
    """
    return [path for line in text.splitlines() if line.strip() for path in _of_line(line.strip())]


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """What to sort names by, so that photo 2 comes before photo 10."""
    parts = re.split(r"([0-9]+)", name.casefold())
    return [(0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part) for part in parts if part]


def name_of(path: str) -> str:
    """The name of a file or folder."""
    return path.rstrip("/").rpartition("/")[2]


def shortened(path: str) -> str:
    """The path with `~` for the user's home."""
    home = os.path.expanduser("~")  # noqa: PTH111  # this never fails
    return "~" + path.removeprefix(home) if path == home or path.startswith(f"{home}/") else path


def _of_line(line: str) -> list[str]:
    if line.startswith("file://"):
        return [unquote(urlsplit(word).path) for word in line.split()]
    if not any(character in line for character in "\\'\""):
        words = line.split(" /")  # several dropped files: "/a b /c"; a single path with blanks has no " /"
        return [words[0], *("/" + word for word in words[1:])]
    try:
        words = shlex.split(line)
    except ValueError:  # an apostrophe that is part of a name
        return [line]
    is_path = line[0] in "/~" and "\\" not in line  # then quotes are about other paths, or parts of its name
    if is_path and (len(words) == 1 or not all(word.startswith(("/", "~")) for word in words)):
        return [line]
    return words
