"""Download of a file, which stops if too little data arrives."""

import logging
import os
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from frn.errors import FrnError, shorten
from frn.system.files import PART, beside, replacing

TIMEOUT = 30.0  # seconds within which `MIN_PROGRESS` more bytes must arrive
MIN_PROGRESS = 30 << 10

Progress = Callable[[int], object]  # callback with the number of bytes so far


def fetch_url(url: str, path: Path, check: Callable[[Path], None], progress: Progress | None = None) -> None:
    """Download a file to `path`, where it appears once `check` has accepted it.

    Raises FrnError if the file cannot be downloaded or written, or if `check` rejects it; nothing is left behind.
    """
    with replacing(path) as file:
        received, reached, since = 0, 0, time.monotonic()
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                while part := answer.read1(1 << 16):
                    file.write(part)
                    received += len(part)
                    if progress:
                        progress(received)
                    if received >= reached + MIN_PROGRESS:
                        reached, since = received, time.monotonic()
                    elif time.monotonic() - since > TIMEOUT:  # the socket's own timeout restarts at every byte
                        raise TimeoutError(f"only {received - reached:,} bytes arrived in {TIMEOUT:g} s")
        except (OSError, HTTPException) as error:
            raise FrnError(shorten(error)) from error
        file.flush()
        check(beside(Path(os.path.realpath(path)), PART))


def fetch_from_hub(repository: str, file: str) -> Path:
    """Download a repository's file into the hub's own cache, unless it is there.

    Raises FrnError if the file cannot be downloaded, or huggingface_hub is not installed.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # that of its HTTP library
        from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]
    except ImportError as error:
        raise FrnError("the hub needs the huggingface_hub package: pip install huggingface_hub") from error
    disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # not about each of its five attempts
    try:
        return Path(hf_hub_download(repository, file))
    except (OSError, ValueError, HTTPError) as error:
        raise FrnError(shorten(error)) from error
