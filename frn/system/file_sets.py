"""Sets of files that appear in their folder completely or not at all, even if the program is killed.

A new folder is filled under a temporary name next to its place, and renamed at the end. In an existing one, all files
are first written beside the old ones, then the manifest is renamed, then the files are: a reader that finds an old file
takes the one beside it.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from frn.errors import FrnError
from frn.system.files import (
    LOCK,
    MARK,
    PART,
    beside,
    is_file,
    is_ours,
    read_regular,
    remove,
    replacing,
    require_writable,
    sha256,
    sync_path,
)
from frn.system.processes.locks import lock

MANIFEST = "SHA256SUMS"  # name of the list of a set's files and their hashes, in the format of the program `sha256sum`


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path` to fill; at the end it is synced and renamed to `path`.

    An exception in the block leaves nothing behind. Raises FrnError if `path` is a folder that is not empty, or cannot
    be written.
    """
    path = path.absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock(beside(path, LOCK), path):
            new = beside(path, PART)
            remove(new)
            new.mkdir()
            try:
                yield new
                if path.exists() and any(path.iterdir()):
                    raise FrnError(f"{path}: already exists. Choose a folder that does not exist yet.", code="exists")
                for place, _, names in os.walk(new):
                    for name in (*names, "."):
                        sync_path(Path(place, name))
                os.rename(new, path)  # noqa: PTH104
            finally:
                remove(new)
            sync_path(path.parent)
    except OSError as error:
        raise FrnError(f"{path}: cannot be written ({error.strerror or error})") from error


def require_new_folder(path: Path) -> None:
    """Raise FrnError, before the work, if `new_folder` could not create a folder."""
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise FrnError(f"{path}: already exists. Choose a folder that does not exist yet.", code="exists")
    if not path.exists():
        require_writable(path)


def write_set(folder: Path, files: Mapping[str, bytes], *, replace: bool = False) -> list[str]:
    """Write files by relative path and a manifest of their hashes into a folder; return the removed ones.

    Files of the earlier set that are not in this one are removed if they are as its manifest says; all others are kept.
    After a kill, `read_member` returns the content of the old or of the new set. Raises FrnError if the files cannot be
    written, or without `replace` would overwrite others, see `require_writable_set`.
    """
    folder = Path(os.path.realpath(folder))
    require_writable_set(folder, files, replace=replace)
    earlier = _read_manifest(folder)
    stale = [name for name in earlier.keys() - files.keys() if _is_listed(folder, name, earlier)]
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())]
    manifest = f"# {MARK}. To check the files: sha256sum -c {MANIFEST}\n{''.join(lines)}".encode()
    files = {**files, MANIFEST: manifest}
    if not folder.exists():
        with new_folder(folder) as new:
            for name, data in files.items():
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                (new / name).write_bytes(data)
        return []
    with contextlib.ExitStack() as renames:  # the manifest is renamed first: from then on, the new set is complete
        for name, data in files.items():
            file = renames.enter_context(replacing(folder / name, replace=True))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    for name in stale:
        (folder / name).unlink(missing_ok=True)
    return sorted(stale)


def require_writable_set(folder: Path, names: Iterable[str], *, replace: bool = False) -> None:
    """Raise FrnError as `require_writable` does, unless a file is as the manifest of the folder's earlier set says."""
    sums = _read_manifest(folder)
    for name in names:
        require_writable(folder / name, replace=replace or _is_listed(folder, name, sums))


def read_member(path: Path, most: int) -> bytes:
    """Return the bytes of a file. If the manifest of its folder lists it, they have the hash given there.

    Raises FrnError as `read_regular` does, or if the file is another one.
    """
    sums = _read_manifest(path.parent)
    if path.name not in sums:
        return read_regular(path, most)
    for place in _places(path):
        if is_file(place) and hashlib.sha256(data := read_regular(place, most)).hexdigest() == sums[path.name]:
            return data
    raise FrnError(
        f"{path}: is not the file that {MANIFEST} in its folder lists: it was changed or damaged. Export it again, or "
        f"delete {MANIFEST} to use it as it is."
    )


def _places(path: Path) -> tuple[Path, Path]:
    """Return a file and its part file, which has the new content if a kill prevented the rename."""
    return path, beside(Path(os.path.realpath(path)), PART)


def _read_manifest(folder: Path) -> dict[str, str]:
    """Return the hashes in a folder's manifest by relative path; empty if it has none, or one that is not ours."""
    path = folder / MANIFEST
    if not (is_file(path) and is_ours(path)):
        return {}
    text = read_regular(path, 1 << 20).decode(errors="replace")
    sums = {name: digest for digest, name in re.findall(r"^([0-9a-f]{64})  ([^\0\n]+)$", text, re.MULTILINE)}
    return {name: sums[name] for name in sums if not Path(name).is_absolute() and ".." not in Path(name).parts}


def _is_listed(folder: Path, name: str, sums: Mapping[str, str]) -> bool:
    """Return whether a file is as the manifest says, or is about to be replaced by such a one."""
    with contextlib.suppress(OSError):
        return name in sums and any(is_file(place) and sha256(place) == sums[name] for place in _places(folder / name))
    return False
