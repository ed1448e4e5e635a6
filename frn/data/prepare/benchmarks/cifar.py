"""CIFAR-FS (Bertinetto et al., ICLR 2019): CIFAR-100 by class, 64 / 16 / 20 classes with all their 600 images."""

import io
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from frn.data.folders import SPLITS
from frn.data.prepare.benchmark import Benchmark, Item, Plan, below, read_split
from frn.data.prepare.sources import Found, Sources
from frn.data.prepare.writer import encode_png
from frn.errors import FrnError

PER_CLASS = 600


def plan(sources: Sources, split: str) -> Plan:
    """Assign CIFAR-100 images to splits by their class, from `cifar-100-binary.tar.gz` or its unpacked contents."""
    labels_of = read_split("cifar_fs")
    split_of = {label: part for part in SPLITS for label in labels_of[part]}
    files = below(sources.files(), "train.bin")
    counts: dict[str, int] = {}
    items = []
    try:
        names = files["fine_label_names.txt"].read().decode().split()
        raw = np.frombuffer(files["train.bin"].read() + files["test.bin"].read(), dtype=np.uint8).reshape(-1, 2 + 3072)
        for image, index in zip(raw[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), raw[:, 1], strict=True):
            label = names[index]
            number = counts[label] = counts.get(label, 0) + 1
            file = f"{number - 1:03d}.png"
            picture = Found((label, file), -1, partial(_png, image), f"{sources}: {label} {number}")
            items.append(Item(split_of[label], label, file, picture))
    except (KeyError, ValueError, IndexError) as error:
        if isinstance(error, FrnError):
            raise
        raise FrnError(f"{sources}: is not cifar-100-binary.tar.gz, or is damaged ({error})") from error
    return Plan(items, {part: (len(labels_of[part]), PER_CLASS * len(labels_of[part])) for part in SPLITS})


def _png(image: np.ndarray[Any, np.dtype[np.uint8]]) -> io.BytesIO:
    return io.BytesIO(encode_png(Image.fromarray(image)))


CIFAR_FS = Benchmark(
    plan=plan,
    checksums={"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"},
    url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    mebibytes=161,
)
