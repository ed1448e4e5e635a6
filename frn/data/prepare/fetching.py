"""Fetching an archive, only when asked for, by torchvision's own downloader."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from frn.errors import FrnError


class Download(NamedTuple):
    """A file that torchvision knows the place of."""

    url: str
    file: str
    md5: str


def cifar_100() -> list[Download]:
    """CIFAR-100, 161 MB."""
    from torchvision.datasets import CIFAR100

    return [Download(CIFAR100.url, CIFAR100.filename, CIFAR100.tgz_md5)]


def omniglot() -> list[Download]:
    """Both sets of Omniglot, 16 MB."""
    from torchvision.datasets import Omniglot

    home = Omniglot.download_url_prefix
    return [Download(f"{home}/{name}.zip", f"{name}.zip", md5) for name, md5 in Omniglot.zips_md5.items()]


def aircraft() -> list[Download]:
    """FGVC-Aircraft 2013b, 2.7 GB; torchvision checks no sum, so ours is given."""
    from torchvision.datasets import FGVCAircraft

    return [Download(FGVCAircraft._URL, "fgvc-aircraft-2013b.tar.gz", "d4acdd33327262359767eeaa97a4f732")]


def fetch(downloads: Sequence[Download], folder: Path) -> list[Path]:
    """Fetch what is not in `folder` yet, and return the files.

    FrnError if the network or the disk refuses, or what came has another checksum.
    """
    from torchvision.datasets.utils import download_url

    for download in downloads:
        try:
            download_url(download.url, folder, download.file, download.md5)
        except (OSError, RuntimeError) as error:  # urllib's errors are OSErrors; torchvision's are RuntimeErrors
            raise FrnError(
                f"{download.url}: cannot be fetched ({error}). Fetch it by other means into {folder} and leave out "
                "--download."
            ) from error
    return [folder / download.file for download in downloads]
