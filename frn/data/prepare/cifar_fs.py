"""CIFAR-FS (Bertinetto et al., ICLR 2019): CIFAR-100, all 600 images of a class together, 64 / 16 / 20 classes."""

import io
import pickle
import tarfile
import tomllib
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from frn.data.prepare.sources import Item, find_images, open_tar
from frn.errors import FrnError

Arrays = tuple[list[str], np.ndarray[Any, np.dtype[np.uint8]], list[int]]
"""Class names, images (n, 32, 32, 3), labels."""


def items(sources: Sequence[Path]) -> list[Item]:
    """Assign CIFAR-100 images to the benchmark's splits by their class.

    Args:
        sources: `cifar-100-binary.tar.gz` or `cifar-100-python.tar.gz` as released, or folders or zips of class
            folders that carry CIFAR-100's fine class names.

    Raises:
        FrnError: if a class of the benchmark is missing, or the archive is something else.
    """
    split_of = _split_of()
    archives = [path for path in sources if path.is_file() and tarfile.is_tarfile(path)]
    found = _from_archive(archives[0], split_of) if archives else _from_folders(sources, split_of)
    missing = sorted(set(split_of) - {item.label for item in found})
    if missing:
        raise FrnError(
            f"{', '.join(map(str, sources))}: {len(missing)} of CIFAR-FS's 100 classes are missing "
            f"({', '.join(missing[:3])}, ...). Give all parts, one --source each, or the folder that holds them."
        )
    return found


def _split_of() -> dict[str, str]:
    splits = tomllib.loads((files("frn.data") / "splits" / "cifar_fs.toml").read_text(encoding="utf-8"))
    return {label: split for split in ("train", "val", "test") for label in splits[split]}


def _from_folders(sources: Sequence[Path], split_of: dict[str, str]) -> list[Item]:
    return [
        Item(split_of[image.parts[-2]], image.parts[-2], image.parts[-1], image.size, image.read)
        for image in find_images(sources)
        if len(image.parts) > 1 and image.parts[-2] in split_of
    ]


def _from_archive(path: Path, split_of: dict[str, str]) -> list[Item]:
    with open_tar(path) as archive:
        members = {Path(member.name).name: member for member in archive.getmembers() if member.isfile()}

        def read(name: str) -> bytes:
            file = archive.extractfile(members[name])
            assert file is not None  # only regular files were kept
            return file.read()

        try:
            names, images, labels = _read_binary(read) if "train.bin" in members else _read_python(read)
        except (KeyError, ValueError, EOFError, tarfile.TarError, pickle.UnpicklingError) as error:
            raise FrnError(f"{path}: is not CIFAR-100's archive, or is damaged ({error})") from error
    counts: dict[str, int] = {}
    found = []
    for image, label in zip(images, labels, strict=True):
        name = names[label]
        counts[name] = counts.get(name, 0) + 1
        found.append(Item(split_of[name], name, f"{counts[name] - 1:03d}.png", -1, _png(image)))
    return found


def _png(image: np.ndarray[Any, np.dtype[np.uint8]]) -> Callable[[], bytes]:
    def encode() -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "PNG")
        return buffer.getvalue()

    return encode


def _read_binary(read: Callable[[str], bytes]) -> Arrays:
    names = read("fine_label_names.txt").decode().split()
    raw = np.frombuffer(read("train.bin") + read("test.bin"), dtype=np.uint8).reshape(-1, 2 + 3072)
    return names, raw[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), raw[:, 1].tolist()


def _read_python(read: Callable[[str], bytes]) -> Arrays:
    meta, train, test = (
        _ArraysOnly(io.BytesIO(read(name)), encoding="bytes").load() for name in ("meta", "train", "test")
    )
    names = [name.decode() for name in meta[b"fine_label_names"]]
    raw = np.concatenate([train[b"data"], test[b"data"]])
    return names, raw.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), [*train[b"fine_labels"], *test[b"fine_labels"]]


class _ArraysOnly(pickle.Unpickler):
    """The released files are pickles; nothing but numpy arrays is rebuilt from them."""

    ALLOWED = frozenset({"_reconstruct", "ndarray", "dtype", "encode"})

    def find_class(self, module: str, name: str) -> Any:
        if name not in self.ALLOWED or module.split(".")[0] not in ("numpy", "_codecs"):
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which an image archive has no use for")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)
