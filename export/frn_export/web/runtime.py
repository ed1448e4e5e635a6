"""onnxruntime-web from the user's own copy of its npm package, since a page must not fetch anything.

Two files of the package suffice: the script with only the WebAssembly backend, and that backend's binary. Our pages
contain both, so the package is needed only to make pages.
"""

import json
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from frn.errors import FrnError
from frn.system.archives import DAMAGE
from frn.system.files import require_regular

PACKAGE = "onnxruntime-web"
SCRIPT, BINARY = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
OLDEST = (1, 20)
"""Oldest version with `SCRIPT`."""
MAX_BYTES = 64 << 20
"""Size limit of one file; the binary is about 14 MB."""
FETCH = f"Download it once with `npm pack {PACKAGE}`, and pass that file to --runtime"


@dataclass(frozen=True, slots=True)
class Runtime:
    """The files of onnxruntime-web that a page needs."""

    version: str
    script: bytes
    binary: bytes

    @property
    def licence(self) -> str:
        """The licence to include with them."""
        text = (files("frn_export.web") / "runtime-licence.txt").read_text(encoding="utf-8")
        return text.format(version=self.version, script=SCRIPT, binary=BINARY, package=PACKAGE)


def find_runtime(given: Path | None) -> Runtime:
    """Read the runtime from a folder with the npm package or from an archive made by `npm pack`.

    By default, look in `node_modules` of the current folder and its parents, where npm installs it. Raises FrnError if
    the runtime is not found, is a different package, or is too old.
    """
    if given is None:
        here = Path.cwd()
        places = [folder / "node_modules" / PACKAGE for folder in (here, *here.parents)]
        given = next((place for place in places if (place / "package.json").is_file()), None)
        if given is None:
            raise FrnError(f"a page needs {PACKAGE}, but node_modules/{PACKAGE} was not found. {FETCH}.")
    wanted = ("package.json", f"dist/{SCRIPT}", f"dist/{BINARY}")
    root = given.parent if given.name == "dist" else given
    if given.is_dir():
        try:
            return _runtime([(root / name).read_bytes() for name in wanted], root)
        except OSError as error:
            raise FrnError(f"{error.filename}: cannot be read ({error.strerror}). {FETCH}.") from error
    return _runtime(_from_archive(given, wanted), given)


def _from_archive(path: Path, wanted: Sequence[str]) -> list[bytes]:
    members: dict[str, bytes] = {}
    if path.exists():
        # Size limit of the package with its other binaries
        require_regular(path, 1 << 30)
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:  # read by name and never unpacked: no path in the archive reaches the disk
                content = archive.extractfile(member) if member.isfile() and member.size <= MAX_BYTES else None
                if content is not None and member.name.removeprefix("package/") in wanted:
                    members[member.name] = content.read()
            while archive.fileobj is not None and archive.fileobj.read(1 << 20):
                pass  # gzip compares its checksum at the end
    except DAMAGE as error:
        reason = getattr(error, "strerror", None) or error
        raise FrnError(f"{path}: is not an archive of {PACKAGE} ({reason}). {FETCH}.") from error
    if missing := [name for name in wanted if f"package/{name}" not in members]:
        raise FrnError(f"{path}: has no package/{missing[0]}. {FETCH}.")
    return [members[f"package/{name}"] for name in wanted]


def _runtime(contents: Sequence[bytes], where: Path) -> Runtime:
    description, script, binary = contents
    try:
        package = json.loads(description)
        name, version = str(package["name"]), str(package["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise FrnError(f"{where}: its package.json cannot be read ({error})") from error
    numbers = tuple(map(int, re.findall(r"\d+", version)))
    if name != PACKAGE or numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise FrnError(f"{where}: is {name} {version}; a page needs {PACKAGE} {oldest} or newer. {FETCH}.")
    if not binary.startswith(b"\0asm"):
        raise FrnError(f"{where}: its {BINARY} is not WebAssembly. {FETCH}.")
    return Runtime(version, script, binary)
