"""Damaged images, read as photos and as data-set images."""

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, features

from frn.data.prepare.writer import cropped_png
from frn.data.synthetic import draw_moth, species
from frn.images.colour import to_rgb
from frn.images.opening import decode, decode_crop, decode_preview
from frn.images.transforms import EvaluationTransform, limit_shorter_side
from tests.campaign.campaign import Part
from tests.campaign.mutations import mend_png, mutate

PLAIN = {
    "JPEG": "RGB CMYK", "PNG": "RGB RGBA I;16 1", "GIF": "P", "WEBP": "RGB", "TIFF": "F I;16 LAB", "BMP": "RGB P 1",
    "PPM": "RGB L 1 F", "AVIF": "RGB",
}  # fmt: skip
WRITTEN: list[tuple[str, str, dict[str, Any]]] = [
    *((kind, mode, {}) for kind, modes in PLAIN.items() for mode in modes.split()),
    ("JPEG", "RGB", {"progressive": True}),
    ("JPEG", "L", {"exif": True}),
    ("PNG", "P", {"transparency": 3}),
    ("GIF", "P", {"frames": True}),
    ("WEBP", "RGBA", {"lossless": True}),
    ("WEBP", "RGB", {"frames": True}),
    *(("TIFF", "RGB", {"compression": name}) for name in ("raw", "tiff_lzw", "tiff_deflate", "packbits", "jpeg")),
    ("TIFF", "1", {"compression": "group4"}),
]


def seeds() -> list[bytes]:
    """Small valid files in every supported format and mode."""
    moth = draw_moth(species(1), np.random.default_rng(1), 40)
    return [*filter(None, (_written(moth, *how) for how in WRITTEN)), *_by_hand(moth)]


def _written(moth: Image.Image, kind: str, mode: str, options: dict[str, Any]) -> bytes | None:
    if kind == "AVIF" and not features.check("avif"):
        return None
    picture = moth.convert("L").convert(mode) if mode in ("F", "I;16") else moth.convert(mode)
    options = dict(options)
    if options.pop("frames", False):
        options |= {"save_all": True, "append_images": [picture.transpose(Image.Transpose.ROTATE_180)] * 2}
    if options.pop("exif", False):
        exif = Image.Exif()
        exif[0x0112] = 6
        options["exif"] = exif
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def _by_hand(moth: Image.Image) -> list[bytes]:
    """Formats that Pillow can read but not write: run-length BMP, plain PPM."""
    grey = np.asarray(moth.convert("L").resize((16, 16)))
    runs = b"".join(bytes([1, value]) for value in grey[0]) + b"\0\0" + bytes([16, 7]) + b"\0\0\0\2\3\1\0\1"
    palette = b"".join(bytes([i, i, i, 0]) for i in range(256))
    header = struct.pack("<IiiHHIIiiII", 40, 16, 16, 1, 8, 1, len(runs), 1, 1, 256, 0)
    bmp = b"BM" + struct.pack("<IHHI", 54 + 1024 + len(runs), 0, 0, 54 + 1024) + header + palette + runs
    numbers = b" ".join(b"%d" % value for value in grey.ravel())
    return [bmp, b"P2\n# plain\n16 16\n255\n" + numbers, b"P3\n16 5\n255\n" + numbers, b"P1\n16 16\n" + b"1 0 " * 128]


def _maker() -> Callable[[np.random.Generator], bytes]:
    good = seeds()

    def make(generator: np.random.Generator) -> bytes:
        data = mutate(good, generator)
        return mend_png(data) if data.startswith(b"\x89PNG") and generator.random() < 0.7 else data

    return make


def photos() -> Part:
    """Read the image as a photo: the crop, a preview, or the whole image."""
    transform = EvaluationTransform(size=32)

    def door(data: bytes, folder: Path) -> None:
        where = folder / "x"
        match len(data) % 3:
            case 0:
                assert decode_crop(data, where, transform).shape == (32, 32, 3)
            case 1:
                decode_preview(data, where, transform)
            case _:
                limit_shorter_side(decode(data, where), 64)

    return Part(60_000, _maker(), door)


def stored() -> Part:
    """Read the image for a data set that stores it as PNG."""

    def door(data: bytes, folder: Path) -> None:
        png = cropped_png(data, "x", (1, 1, 9, 9))
        assert to_rgb(Image.open(io.BytesIO(png))).mode == "RGB"

    return Part(40_000, _maker(), door)
