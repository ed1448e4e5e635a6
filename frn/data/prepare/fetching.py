"""Download of archives on request, by torchvision's downloader."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from frn.errors import FrnError


class Download(NamedTuple):
    """A file whose URL torchvision knows."""

    url: str
    file: str
    md5: str


def downloads(name: str) -> list[Download]:
    """Return the files that torchvision can download: CIFAR-100 (161 MB), Omniglot (16 MB), Aircraft (2.7 GB)."""
    from torchvision.datasets import CIFAR100, FGVCAircraft, Omniglot

    home = Omniglot.download_url_prefix
    aircraft = Download(FGVCAircraft._URL, "fgvc-aircraft-2013b.tar.gz", "d4acdd33327262359767eeaa97a4f732")
    return {
        "cifar-100": [Download(CIFAR100.url, CIFAR100.filename, CIFAR100.tgz_md5)],
        "omniglot": [Download(f"{home}/{part}.zip", f"{part}.zip", md5) for part, md5 in Omniglot.zips_md5.items()],
        "aircraft": [aircraft],  # torchvision does not check this file's checksum
    }[name]


def fetch(downloads: Sequence[Download], folder: Path) -> list[Path]:
    """Download the files that are missing in `folder`, and return all of them.

    Raises FrnError if the network or the disk fails, or a file has a different checksum.
    """
    from torchvision.datasets.utils import download_url

    for download in downloads:
        try:
            download_url(download.url, folder, download.file, download.md5)
        except (OSError, RuntimeError) as error:  # urllib's errors are OSErrors; torchvision's are RuntimeErrors
            raise FrnError(
                f"{download.url}: cannot be downloaded ({error}). Download it yourself into {folder} and remove "
                "--download."
            ) from error
    return [folder / download.file for download in downloads]
