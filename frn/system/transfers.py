"""Download of a file in a child process, which is killed if no more data arrives.

A socket's timeout restarts at every byte, and a library may have no timeout. A process can always be killed, even if it
waits for a name server, a silent proxy, or a proxy that sends single bytes.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from frn.errors import FrnError
from frn.system.files import PART, beside, replacing

TIMEOUT = 30.0
"""Seconds within which `MIN_PROGRESS` more bytes must arrive."""
MIN_PROGRESS = 30 << 10
_POLL = 0.1

Progress = Callable[[int], object]
"""Callback with the number of bytes so far."""

_URL = """
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1]) as answer:
    while part := answer.read1(1 << 16):
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
"""
_HUB = """
import sys
from huggingface_hub import hf_hub_download
print(hf_hub_download(*sys.argv[1:]))
"""


def fetch_url(url: str, path: Path, check: Callable[[Path], None], progress: Progress | None = None) -> None:
    """Download a file to `path`, where it appears once `check` has accepted it.

    Raises FrnError if the file cannot be downloaded or written, or if `check` rejects it; nothing is left behind.
    """
    with replacing(path) as file:
        _run([_URL, url], file, lambda: os.fstat(file.fileno()).st_size, progress)
        check(beside(Path(os.path.realpath(path)), PART))


def fetch_from_hub(repository: str, file: str, progress: Progress | None = None) -> Path:
    """Download a repository's file into the hub's own cache, unless it is there.

    Raises FrnError if the file cannot be downloaded, or huggingface_hub is not installed.
    """
    try:
        from huggingface_hub import constants
    except ImportError as error:
        raise FrnError("the hub needs the huggingface_hub package: pip install huggingface_hub") from error
    cache = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"

    def size() -> int:
        return sum(path.lstat().st_size for path in cache.rglob("*") if path.is_file() and not path.is_symlink())

    with tempfile.TemporaryFile() as said:
        _run([_HUB, repository, file], said, size, progress)
        said.seek(0)
        return Path(said.read().decode().strip().splitlines()[-1])


def _run(words: Sequence[str], out: IO[bytes], size: Callable[[], int], progress: Progress | None) -> None:
    """Run a child to its end. Raises FrnError if the child fails or `size` grows too slowly (`MIN_PROGRESS`)."""
    # the hub's xet client writes late
    environment = os.environ | {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen([sys.executable, "-c", *words], stdout=out, stderr=errors, env=environment) as child,
    ):
        try:
            reached, since = size(), time.monotonic()
            while child.poll() is None:
                time.sleep(_POLL)
                received = size()
                if progress:
                    progress(received)
                if received >= reached + MIN_PROGRESS:
                    reached, since = received, time.monotonic()
                elif time.monotonic() - since > TIMEOUT:
                    raise FrnError(f"only {received - reached:,} bytes arrived in {TIMEOUT:g} s")
        finally:
            child.kill()
            child.wait()
        if child.returncode:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise FrnError(lines[-1] if lines else f"the download process exited with status {child.returncode}")
