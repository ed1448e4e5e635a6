"""Altered copies of a photo are found, and distinguished from other photos."""

import io
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from frn.data.synthetic import draw_moth, species
from frn.images.near_copies import BYTES, LEAST_SAVED, Looks, copy_sets, look, nearest_copies, same_photos
from frn.images.transforms import EvaluationTransform

CROP = EvaluationTransform(size=84, resize=96)
Change = Callable[[Image.Image], Image.Image]


def moth(number: int, kind: int = 0, side: int = 160) -> Image.Image:
    return draw_moth(species(kind), np.random.default_rng([kind, number]), side)


def saved(form: str, side: int | None = None, **options: int) -> Change:
    def change(image: Image.Image) -> Image.Image:
        file = io.BytesIO()
        (image.resize((side, side), Image.Resampling.LANCZOS) if side else image).save(file, form, **options)
        return Image.open(file).convert("RGB")

    return change


def part(share: float, x: float, y: float) -> Change:
    def change(image: Image.Image) -> Image.Image:
        left, top = round(x * (1 - share) * image.width), round(y * (1 - share) * image.height)
        return image.crop((left, top, left + round(share * image.width), top + round(share * image.height)))

    return change


def times(*factors: float) -> Change:
    return lambda image: Image.fromarray((np.asarray(image) * factors).clip(0, 255).astype(np.uint8))


def watermark(image: Image.Image) -> Image.Image:
    marked = image.copy()
    ImageDraw.Draw(marked, "RGBA").text((10, 130), "a photographer", (255, 255, 255, 150), font_size=18)
    return marked


ALIKE: dict[str, Change] = {
    "WebP": saved("WEBP"),
    **{f"JPEG {quality}": saved("JPEG", quality=quality) for quality in (30, 60, 95)},
    **{f"{side} pixels": saved("JPEG", side) for side in (48, 96, 320)},
    "corner of 80%": part(0.8, 0, 0),
    **{f"middle of {share:.0%}": part(share, 0.5, 0.5) for share in (0.8, 0.9)},
    "white border": lambda image: ImageOps.expand(image, 8, "white"),
    "black border": lambda image: ImageOps.expand(image, 16, "black"),
    "watermark": watermark,
    "warm tint": times(1.15, 1.0, 0.8),
    "grey": lambda image: image.convert("L").convert("RGB"),
    "bright": times(1.3, 1.3, 1.3),
    "dark": times(0.7, 0.7, 0.7),
    "contrast": lambda image: ImageEnhance.Contrast(image).enhance(1.3),
    "mirrored": ImageOps.mirror,
    "mirrored crop": lambda image: part(0.9, 0.5, 0.5)(ImageOps.mirror(image)),
    "turned by 2 degrees": lambda image: image.rotate(2, Image.Resampling.BICUBIC),
}


def seen(image: Image.Image) -> bytes:
    return look(CROP(image))


def test_altered_photo_is_a_near_copy_of_its_original_alone() -> None:
    photos = [moth(number, kind) for kind in range(4) for number in range(4)]
    originals = Looks([seen(photo) for photo in photos])
    for name, change in ALIKE.items():
        copies = Looks([seen(change(photo)) for photo in photos])
        assert nearest_copies(copies, originals) == nearest_copies(originals, copies) == list(range(16)), name


def pairs(looks: Sequence[bytes]) -> list[tuple[int, int]]:
    every = Looks(looks)
    return sorted({(one, other) for one, other in same_photos(every, every) if one < other})


def test_altered_photo_of_another_class_is_the_same_photo() -> None:
    photos = [moth(number, number) for number in range(6)]
    originals = Looks([seen(photo) for photo in photos])
    for name, change in ALIKE.items():
        copies = Looks([seen(change(photo)) for photo in photos])
        found = set(same_photos(copies, originals))
        assert found == {(one, other) for other, one in same_photos(originals, copies)}
        assert found <= {(place, place) for place in range(6)}, name
        assert len(found) >= 5, name


def test_different_photos_are_not_near_copies() -> None:
    photos = [seen(moth(number, kind)) for kind in range(5) for number in range(12)]
    assert nearest_copies(Looks(photos)) == [None] * len(photos)
    assert copy_sets(photos) == [[place] for place in range(len(photos))]
    assert pairs(photos) == []


def test_images_that_differ_only_in_colour_are_not_near_copies() -> None:
    red, green, grey = (
        seen(ImageOps.colorize(moth(0).convert("L"), "black", colour)) for colour in ("red", "green", "white")
    )
    assert nearest_copies(Looks([red, grey]), Looks([green])) == [None, 0]
    assert pairs([red, green, grey]) == [(0, 2), (1, 2)]


def test_blank_photos_are_not_near_copies() -> None:
    blank = [seen(Image.new("RGB", (96, 96), colour)) for colour in ("black", "white", "red")]
    assert nearest_copies(Looks([*blank, bytes(BYTES)])) == [None] * 4


def coin(seed: int) -> Image.Image:
    random = np.random.default_rng(seed)
    relief = Image.fromarray(random.integers(90, 190, (16, 16), np.uint8)).resize((128, 128), Image.Resampling.BICUBIC)
    x, y = random.uniform(10, 18, 2)
    shape = Image.new("L", (128, 128))
    ImageDraw.Draw(shape).ellipse((x, y, x + 100, y + 100), fill=255)
    return Image.composite(relief, Image.new("L", (128, 128), 245), shape).convert("RGB")


def test_photos_of_similar_objects_on_white_are_not_the_same() -> None:
    coins = [seen(coin(number)) for number in range(40)]
    assert pairs(coins) == []
    assert copy_sets(coins, LEAST_SAVED) == [[number] for number in range(40)]
    assert pairs([*coins, seen(saved("JPEG", 64, quality=60)(coin(3)))]) == [(3, 40)]


def test_sets_of_copies_are_found_in_any_block() -> None:
    generator = np.random.default_rng(0)
    looks = [generator.bytes(BYTES) for _ in range(150)]
    looks[140], looks[100] = looks[3], bytes([looks[3][0] ^ 3]) + looks[3][1:]
    assert [each for each in copy_sets(looks) if len(each) > 1] == [[3, 100, 140]]
    assert pairs(looks) == [(3, 100), (3, 140), (100, 140)]
    assert nearest_copies(Looks([looks[140], looks[5]]), Looks(looks[:100])) == [3, 5]
    assert nearest_copies(Looks([looks[3]]), Looks([])) == [None]
