"""onnxruntime-web from the user's own copy of its npm package, since a page must not fetch anything.

Two files of the package suffice: the script with only the WebAssembly backend, and that backend's binary. Our pages
contain both, so the package is needed only to make pages.
"""

import json
import re
import shlex
import tarfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from frn.errors import FrnError
from frn.system.archives import DAMAGE
from frn.system.files import require_regular

PACKAGE = "onnxruntime-web"
SCRIPT, BINARY = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
SERVED = "ort.wasm.bundle.min.js"
"""Name of the script in a page: some file servers do not know `.mjs`, and browsers then reject it."""
MAX_WEB_FILE_BYTES = 64 << 20  # size limit of one file; the binary is about 14 MB
FETCH = f"npm pack {PACKAGE}@1.30.0"  # downloads the version that the page was tested with into the current folder


@dataclass(frozen=True, slots=True)
class Runtime:
    """The files of onnxruntime-web that a page needs."""

    version: str
    script: bytes
    binary: bytes

    @property
    def licence(self) -> str:
        text = (files("frn_export.web") / "runtime-licence.txt").read_text(encoding="utf-8")
        return text.format(version=self.version, script=SCRIPT, binary=BINARY, package=PACKAGE)


def find_runtime(page: Path) -> Runtime | None:
    """Find the runtime for a page: the archive from `npm pack`, or the runtime of an earlier page.

    Looks for archives in the current folder and beside the page. Returns None if there is none. Raises FrnError as
    `read_runtime` does.
    """
    for folder in (Path.cwd(), page.absolute().parent):
        if archives := sorted(folder.glob(f"{PACKAGE}-*.tgz")):
            return read_runtime(archives[-1])
    return _of_page(page)


def missing_runtime(page: Path) -> str:
    """Return what to do about a page without a runtime, in one line."""
    fetch = f"cd {shlex.quote(str(page.absolute().parent))} && {FETCH}"
    return f"{page}: the page opens once it has {PACKAGE} (14 MB). Run `{fetch}`, then export the page again."


def read_runtime(path: Path) -> Runtime:
    """Read the runtime from an archive made by `npm pack`.

    Raises FrnError if it cannot be read, or lacks one of the files, as versions before 1.20 do.
    """
    require_regular(path, 1 << 30)  # with the binaries for other backends
    wanted = ("package.json", f"dist/{SCRIPT}", f"dist/{BINARY}")
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:  # read by name and never unpacked: no path in the archive reaches the disk
                content = archive.extractfile(member) if member.isfile() and member.size <= MAX_WEB_FILE_BYTES else None
                if content is not None and (name := member.name.removeprefix("package/")) in wanted:
                    members[name] = content.read()
            while archive.fileobj is not None and archive.fileobj.read(1 << 20):
                pass  # gzip compares its checksum at the end
        if missing := [name for name in wanted if name not in members]:
            raise FrnError(f"{path}: has no package/{missing[0]}. Run `{FETCH}` again.")
        version = str(json.loads(members["package.json"])["version"])
    except FrnError:
        raise
    except (*DAMAGE, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FrnError(f"{path}: is not an archive of {PACKAGE} ({reason}). Run `{FETCH}` again.") from error
    if not members[f"dist/{BINARY}"].startswith(b"\0asm"):
        raise FrnError(f"{path}: its {BINARY} is not WebAssembly. Run `{FETCH}` again.")
    return Runtime(version, members[f"dist/{SCRIPT}"], members[f"dist/{BINARY}"])


def _of_page(page: Path) -> Runtime | None:
    """Return the runtime of an earlier page, which a new export keeps."""
    folder = page / "runtime"
    try:
        version = re.search(r"Runtime Web (\S+):", (folder / "LICENSE").read_text("utf-8"))
        files = [(folder / name).read_bytes() for name in (SERVED, BINARY)]
    except (OSError, UnicodeDecodeError):
        return None
    return Runtime(version[1], *files) if version else None
