"""Near copies are found in any format and size, and distinguished from other photos."""

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from frn.data.synthetic import draw_moth, species
from frn.images.near_copies import are_near, look, nearest_copies
from frn.images.transforms import EvaluationTransform

CROP = EvaluationTransform(size=84, resize=96)


def moth(number: int, kind: int = 0, side: int = 160) -> Image.Image:
    return draw_moth(species(kind), np.random.default_rng([kind, number]), side)


def saved(image: Image.Image, form: str, **options: int) -> Image.Image:
    file = io.BytesIO()
    image.save(file, form, **options)
    return Image.open(file)


@pytest.mark.parametrize("kind", range(4))
def test_resaved_or_resized_photo_is_a_near_copy(kind: int) -> None:
    image = moth(0, kind)
    copies = [saved(image, "PNG"), saved(image, "WEBP"), *(saved(image, "JPEG", quality=q) for q in (30, 60, 95))]
    copies += [saved(image.resize((side, side), Image.Resampling.LANCZOS), "JPEG") for side in (96, 120, 320)]
    found = are_near([look(CROP(copy)) for copy in copies], [look(CROP(image))])
    assert found.all()


def test_different_photos_of_a_class_are_not_near_copies() -> None:
    photos = [look(CROP(moth(number, kind))) for kind in range(4) for number in range(6)]
    assert nearest_copies(photos) == [None] * len(photos)


def test_images_that_differ_only_in_colour_are_not_near_copies() -> None:
    red, green = (ImageOps.colorize(moth(0).convert("L"), "black", colour) for colour in ("red", "green"))
    assert not are_near([look(CROP(red))], [look(CROP(green))]).any()


def test_nearest_of_several_copies_is_found_in_any_block() -> None:
    generator = np.random.default_rng(0)
    looks = [generator.bytes(20) for _ in range(700)]
    looks[650] = looks[3]
    looks[400] = bytes([looks[3][0] ^ 3]) + looks[3][1:]  # differs in two bits
    found = nearest_copies(looks)
    assert (found[3], found[650], found[400]) == (650, 3, 3)
    assert nearest_copies([looks[400]], looks) == [400]
    assert nearest_copies([looks[3]], []) == [None]
