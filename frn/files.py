"""Files: written so that a kill, a full disk or a power cut leaves the old one or the new one; where caches live."""

import contextlib
import os
from pathlib import Path

from frn.errors import FrnError


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write `content` beside `path`, sync it, and rename it over `path`.

    FrnError if it cannot be written; `path` is then as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = str(path.with_name(f".{path.name}.{os.urandom(4).hex()}"))
        # The system applies the umask; asking for it would change it for every thread meanwhile.
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        temporary = new
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise FrnError(f"{path}: cannot be written ({error.strerror}, {len(data):,} bytes)") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


def cache_folder() -> Path:
    """Where caches live: $FRN_CACHE, or the user's cache folder."""
    if override := os.environ.get("FRN_CACHE"):
        return Path(override)
    from platformdirs import user_cache_path

    return user_cache_path("frn", appauthor=False)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
