"""A box of a photo is named like a photo: `bird.jpg#xywh=120,80,300,200` (W3C, Media Fragments URI 1.0, 4.2.2).

The numbers are the left and top edge, the width and the height in pixels of the upright photo. Wherever a photo can be
named, so can a box, which is then read as if it were a file of its own. This module does not need Pillow.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from frn.errors import FrnError
from frn.system.files import is_file

BOX = re.compile(r"(.+)#xywh=(\d{1,6}),(\d{1,6}),(\d{1,6}),(\d{1,6})", re.DOTALL)


class Box(NamedTuple):
    """A part of a photo, in pixels of the upright photo."""

    left: int
    top: int
    width: int
    height: int


def box_name(path: str, box: Box) -> str:
    """Return the name of a box of a photo."""
    return f"{path}#xywh={','.join(map(str, box))}"


def part_of(photo: Path, box: Box | None) -> Path:
    """Return the name of a box of a photo, in place of the box in its name; without a box, the photo."""
    return photo if box is None else Path(box_name(str(split_box(photo)[0]), box))


def split_box(name: str | Path) -> tuple[Path, Box | None]:
    """Return the file of a photo and the box in its name, if any. A file that really has such a name has no box."""
    path = Path(name)
    if "#xywh=" not in path.name or not (match := BOX.fullmatch(str(path))) or is_file(path):
        return path, None
    return Path(match[1]), Box(*map(int, match.groups()[1:]))


def path_of_url(name: str) -> str:
    """Return the path of a `file:` URL (RFC 8089); other names are returned unchanged.

    Raises FrnError for a file on another machine.
    """
    if not (url := re.fullmatch(r"file:(?=/)(?://([^/]*))?(/.*)?", name, re.IGNORECASE | re.DOTALL)):
        return name
    if (url[1] or "localhost").lower() != "localhost" or not url[2]:
        raise FrnError(f"{name}: is not a file of this machine. Give its path, or a URL such as file:///photos/x.jpg.")
    if os.name == "nt":
        from urllib.request import url2pathname

        return url2pathname(url[2])
    return os.fsdecode(unquote_to_bytes(url[2]))
