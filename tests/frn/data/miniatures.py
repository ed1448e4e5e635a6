"""Miniature archives with the layout of the released ones, and the expected results."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Files = dict[str, bytes]


def picture(seed: int, *, size: tuple[int, int] = (24, 18), mode: str = "RGB", kind: str = "JPEG") -> bytes:
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    pixels = np.random.default_rng(seed).integers(0, 255, shape, dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def tar_of(path: Path, files: Mapping[str, bytes | str]) -> Path:
    """Write a tar, compressed as its suffix says; a text entry is the target of a symbolic link."""
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


def zip_of(path: Path, files: Files) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def unpacked(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def prepared(out: Path) -> set[str]:
    return {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file() and p.name != "prepared.json"}


def pixels(data: bytes | Path) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(data) if isinstance(data, bytes) else data))


BOX = (3.0, 2.5, 10.6, 9.0)
"""x, y, width and height of every miniature bird; the sides round to 3, 2, 14 and 12 (from 13.6 and 11.5)."""


def cub_files(*, classes: int = 200) -> Files:
    """Build the CUB archive, with annotations after the images and attributes.txt outside the folder."""
    names = {n: f"{n:03d}.Bird_{n}/Bird_{n}_{9000 + n}.jpg" for n in range(1, classes + 1)}
    text = {
        "bounding_boxes.txt": "\n".join(f"{n} {' '.join(map(str, BOX))}" for n in names),
        "classes.txt": "\n".join(f"{n} {name.split('/')[0]}" for n, name in names.items()),
        "image_class_labels.txt": "\n".join(f"{n} {n}" for n in names),
        "images.txt": "\n".join(f"{n} {name}" for n, name in names.items()),
        "README": "x",
    }
    images = {f"images/{name}": picture(n, mode="L" if n == 2 else "RGB") for n, name in names.items()}
    whole = {f"CUB_200_2011/{name}": data for name, data in images.items()}
    whole |= {f"CUB_200_2011/{name}": content.encode() for name, content in text.items()}
    return {"attributes.txt": b"x", **whole, "CUB_200_2011/images/001.Bird_1/._Bird_1.jpg": b"apple double"}


def aircraft_files(*, per_class: int = 2) -> Files:
    variants = [f"F/A-{n} Plane" for n in range(100)]
    images = {f"{n * per_class + i:07d}": n for n in range(100) for i in range(per_class)}
    lists = {"trainval": [], "test": []}  # type: dict[str, list[str]]
    for image, n in images.items():
        lists["test" if int(image) % 3 == 0 else "trainval"].append(f"{image} {variants[n]}")
    files = {f"images/{image}.jpg": picture(int(image)) for image in images}
    files |= {f"images_variant_{name}.txt": "\n".join(content).encode() for name, content in lists.items()}
    files["variants.txt"] = "\n".join(variants).encode()
    files["images_box.txt"] = "\n".join(f"{image} 1 2 20 15" for image in images).encode()
    return {f"fgvc-aircraft-2013b/data/{name}": content for name, content in files.items()}
