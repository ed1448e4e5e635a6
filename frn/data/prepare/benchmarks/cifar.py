"""CIFAR-FS (Bertinetto et al., ICLR 2019) and FC100 (Oreshkin et al., NeurIPS 2018): CIFAR-100 by class.

Each class keeps all its 600 images. CIFAR-FS draws 64 / 16 / 20 classes; FC100 splits by super-class, 60 / 20 / 20.
"""

import io
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from frn.data.folders import SPLITS
from frn.data.prepare.benchmark import Benchmark, Item, Plan, below, read_split
from frn.data.prepare.pickles import load_arrays
from frn.data.prepare.sources import Found, Sources
from frn.data.prepare.stored_images import encode_png
from frn.errors import FrnError

PER_CLASS = 600
Pixels = np.ndarray[Any, np.dtype[np.uint8]]
Arrays = tuple[list[str], Pixels, list[int]]
"""Class names, images (n, 32, 32, 3), labels."""


def plan(sources: Sources, split: str, *, name: str) -> Plan:
    """Assign CIFAR-100 images to the splits of `name`, `cifar_fs` or `fc100`, by their class.

    The sources are `cifar-100-binary.tar.gz` or `cifar-100-python.tar.gz`, or their unpacked contents; or folders or
    archives of class folders with CIFAR-100's fine class names.
    """
    labels_of = {part: _fine_labels(read_split(name)[part]) for part in SPLITS}
    split_of = {label: part for part, labels in labels_of.items() for label in labels}
    found = sources.files()
    release = below(found, "train.bin") or below(found, "meta")
    items = _from_release(release, split_of, sources) if release else _from_folders(sources, split_of)
    missing = sorted(split_of.keys() - {item.label for item in items})
    if missing:
        raise FrnError(
            f"{sources}: {len(missing)} of CIFAR-100's 100 classes are missing ({', '.join(missing[:3])}, ...). Pass "
            "all parts, each with its own --source, or the folder with all of them."
        )
    return Plan(items, {part: (len(labels), PER_CLASS * len(labels)) for part, labels in labels_of.items()})


def _fine_labels(facts: list[str] | dict[str, list[str]]) -> list[str]:
    return facts if isinstance(facts, list) else [label for labels in facts.values() for label in labels]


def _from_folders(sources: Sources, split_of: dict[str, str]) -> list[Item]:
    return [
        Item(split_of[image.parts[-2]], image.parts[-2], image.parts[-1], image)
        for image in sources.images()
        if len(image.parts) > 1 and image.parts[-2] in split_of
    ]


def _from_release(files: dict[str, Found], split_of: dict[str, str], sources: Sources) -> list[Item]:
    counts: dict[str, int] = {}
    items = []
    try:
        names, images, labels = _read_binary(files) if "train.bin" in files else _read_python(files)
        for image, index in zip(images, labels, strict=True):
            label = names[index]
            number = counts[label] = counts.get(label, 0) + 1
            file = f"{number - 1:03d}.png"
            picture = Found((label, file), -1, partial(_png, image), f"{sources}: {label} {number}")
            items.append(Item(split_of[label], label, file, picture))
    except (KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
        if isinstance(error, FrnError):
            raise
        raise FrnError(f"{sources}: is not the released CIFAR-100 archive, or is damaged ({error})") from error
    return items


def _png(image: Pixels) -> io.BytesIO:
    return io.BytesIO(encode_png(Image.fromarray(image)))


def _read_binary(files: dict[str, Found]) -> Arrays:
    names = files["fine_label_names.txt"].read().decode().split()
    raw = np.frombuffer(files["train.bin"].read() + files["test.bin"].read(), dtype=np.uint8).reshape(-1, 2 + 3072)
    return names, raw[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), raw[:, 1].tolist()


def _read_python(files: dict[str, Found]) -> Arrays:
    meta, train, test = (
        load_arrays(io.BytesIO(files[name].read()), files[name].where) for name in ("meta", "train", "test")
    )
    names = [name.decode() for name in meta[b"fine_label_names"]]
    raw = np.concatenate([train[b"data"], test[b"data"]])
    return names, raw.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), [*train[b"fine_labels"], *test[b"fine_labels"]]


CHECKSUMS = {
    "cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85",
    "cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8",
}
CIFAR_FS, FC100 = (
    Benchmark(plan=partial(plan, name=name), checksums=CHECKSUMS, archives=r".*\.zip", downloads="cifar-100")
    for name in ("cifar_fs", "fc100")
)
