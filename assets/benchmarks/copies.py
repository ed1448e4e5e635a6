"""Measure which altered copies of photos are found, and how many different photos are taken for copies.

    python assets/benchmarks/copies.py DATA... --split val

Alterations: found in percent, among examples of the same class / of another class (`frn.images.near_copies`). Pairs of
different photos: number of pairs, and those taken for copies; some of these are true copies in the data.
"""

import argparse
import io
from collections.abc import Callable
from pathlib import Path

from PIL import Image, ImageEnhance, ImageOps

from frn.data.check import CROP
from frn.data.folders import scan
from frn.images.near_copies import LEAST_SAVED, Looks, look, same_photos
from frn.images.opening import open_image

Change = Callable[[Image.Image], Image.Image]


def saved(form: str, quality: int) -> Change:
    """Return a change that saves a photo again."""

    def change(image: Image.Image) -> Image.Image:
        file = io.BytesIO()
        image.save(file, form, quality=quality)
        return Image.open(file)

    return change


def crop(share: float, x: float, y: float) -> Change:
    """Return a change that keeps a share of both sides; (0, 0) is the upper left corner."""

    def change(image: Image.Image) -> Image.Image:
        width, height = (round(share * side) for side in image.size)
        left, top = round(x * (image.width - width)), round(y * (image.height - height))
        return image.crop((left, top, left + width, top + height))

    return change


def border(colour: str) -> Change:
    """Return a change that adds a border of a twentieth of the width."""
    return lambda image: ImageOps.expand(image, image.width // 20, colour)


def tint(image: Image.Image) -> Image.Image:
    """Return an image with warmer colours."""
    return Image.merge(
        "RGB", [band.point(lambda v, f=f: v * f) for band, f in zip(image.split(), (1.15, 1, 0.8), strict=True)]
    )


CHANGES: dict[str, Change] = {
    "JPEG 30": saved("JPEG", 30),
    "WebP": saved("WEBP", 80),
    "a quarter of the side": lambda image: image.resize((image.width // 4, image.height // 4)),
    "middle of 90%": crop(0.9, 0.5, 0.5),
    "middle of 80%": crop(0.8, 0.5, 0.5),
    "corner of 80%": crop(0.8, 0, 0),
    "middle of 70%": crop(0.7, 0.5, 0.5),
    "white border": border("white"),
    "black border": border("black"),
    "warm tint": tint,
    "grey": lambda image: image.convert("L"),
    "brighter by 30%": lambda image: ImageEnhance.Brightness(image).enhance(1.3),
    "mirrored": ImageOps.mirror,
    "mirrored corner of 80%": lambda image: crop(0.8, 1, 1)(ImageOps.mirror(image)),
    "turned by 2 degrees": lambda image: image.rotate(2, Image.Resampling.BICUBIC),
    "turned by 5 degrees": lambda image: image.rotate(5, Image.Resampling.BICUBIC),
}


def rates(originals: list[bytes], copies: list[bytes]) -> tuple[float, float]:
    """Return the shares of copies that are found in the class of their original and in another, in percent."""
    pairs = [(Looks([one]), Looks([other])) for one, other in zip(originals, copies, strict=True)]
    here = sum(one.nearness(other, LEAST_SAVED).any() for one, other in pairs)
    elsewhere = sum(any(same_photos(one, other)) for one, other in pairs)
    return 100 * here / len(pairs), 100 * elsewhere / len(pairs)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="Data sets.")
    parser.add_argument("--split", default="val")
    parser.add_argument("--photos", type=int, default=40, help="Photos of each class.")
    parser.add_argument("--altered", type=int, default=4, help="Altered photos of each class.")
    return parser


def main() -> None:
    """Print a table."""
    options = parser().parse_args()
    rows: dict[str, list[str]] = {name: [] for name in [*CHANGES, "different photos of a class", "of two classes"]}
    for root in options.data:
        folders = scan(root / options.split)
        classes = [files[: options.photos] for files in folders.files]
        photos = [
            folders.root / name / file for name, files in zip(folders.names, classes, strict=True) for file in files
        ]
        labels = [label for label, files in enumerate(classes) for _ in files]
        looks = [look(CROP(open_image(path))) for path in photos]
        altered = [labels.index(label) + n for label in set(labels) for n in range(options.altered)]
        images = [open_image(photos[place]).convert("RGB") for place in altered]
        for name, change in CHANGES.items():
            shares = rates([looks[place] for place in altered], [look(CROP(change(image))) for image in images])
            rows[name].append(" / ".join(f"{rate:.0f}" for rate in shares))
        every, near = Looks(looks), 0
        for label in set(labels):
            of_class = Looks([seen for seen, of in zip(looks, labels, strict=True) if of == label])
            near += (int((of_class.nearness(of_class, LEAST_SAVED) > 0).sum()) - len(of_class)) // 2
        within = sum(len(files) * (len(files) - 1) // 2 for files in classes)
        same = {frozenset(pair) for pair in same_photos(every, every) if labels[pair[0]] != labels[pair[1]]}
        rows["different photos of a class"].append(f"{near} of {within:,}")
        rows["of two classes"].append(f"{len(same)} of {len(looks) * (len(looks) - 1) // 2 - within:,}")
    print("| | " + " | ".join(root.name for root in options.data) + " |\n|---" + "|---" * len(options.data) + "|")
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
