"""Stamps of photo files: they show whether a file has changed without reading it."""

from pathlib import Path

from frn.errors import FrnError
from frn.images.boxes import split_box


def stamp_of(path: Path) -> str | None:
    """Return a text that differs once the file of a photo has changed, or None if there is no such file.

    No program can set the time of a file's last change of status, so even a copy with the same size and modification
    time has another stamp. On Windows, which has no such time, it is that of the file's creation.
    """
    file = split_box(path)[0]
    try:
        if not file.exists():
            from frn.system.archives import find_zip, zip_around  # with `tarfile`, which the app starts without

            if (inside := find_zip(file)) is None or inside[1] not in inside[0].files:
                return None
            file = zip_around(file) or file
        status = file.stat()
    except FrnError:  # a damaged zip
        return ""
    except OSError:
        return None
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
