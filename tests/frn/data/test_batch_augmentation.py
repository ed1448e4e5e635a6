"""Augmentation of whole batches."""

from typing import Literal

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance

from frn.data.augmentation import Augmentation, Draw
from frn.data.batch_augmentation import augment, crop_and_resize, crop_together, jitter_colours, jitter_together
from frn.errors import FrnError


def draw_of(boxes: list[list[float]], *, flip: bool = False) -> Draw:
    b = len(boxes)
    return Draw(np.array(boxes, dtype=float), np.full(b, flip), np.zeros((b, 3), dtype=np.int64), np.ones((b, 3)))


def noise(height: int, width: int, seed: int = 0) -> np.typing.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)


def as_batch(image: np.typing.NDArray[np.uint8]) -> torch.Tensor:
    return torch.from_numpy(image)[None].permute(0, 3, 1, 2)


@pytest.mark.parametrize(("box", "size"), [((5, 3, 40, 30), 20), ((0, 0, 50, 60), 84), ((10, 20, 8, 9), 32)])
def test_resized_crop_is_within_a_grey_level_of_pillow(box: tuple[int, int, int, int], size: int) -> None:
    image = noise(50, 60)
    top, left, height, width = box
    cropped = Image.fromarray(image).crop((left, top, left + width, top + height))
    expected = np.asarray(cropped.resize((size, size), Image.Resampling.BILINEAR)).astype(float)
    ours = crop_and_resize(as_batch(image), np.array([[50, 60]]), draw_of([list(box)]), size)
    assert np.abs(ours[0].permute(1, 2, 0).numpy() * 255 - expected).max() <= 1.01


def test_a_padded_crop_is_exact_and_black_outside() -> None:
    image = noise(32, 32)
    ours = crop_and_resize(as_batch(image), np.array([[32, 32]]), draw_of([[-4, 3, 32, 32]]), 32)
    expected = np.zeros((32, 32, 3))
    expected[4:, :29] = image[:28, 3:]
    assert np.abs(ours[0].permute(1, 2, 0).numpy() * 255 - expected).max() < 1e-4


def test_a_flip_mirrors_columns_only() -> None:
    image = noise(32, 32)
    plain = crop_and_resize(as_batch(image), np.array([[32, 32]]), draw_of([[0, 0, 32, 32]]), 32)
    flipped = crop_and_resize(as_batch(image), np.array([[32, 32]]), draw_of([[0, 0, 32, 32]], flip=True), 32)
    torch.testing.assert_close(flipped, plain.flip(-1))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_colour_jitter_equals_that_of_pillow_in_every_order(order: tuple[int, int, int]) -> None:
    image, factors = noise(16, 16), (0.7, 1.3, 0.6)
    expected = Image.fromarray(image)
    for kind in order:
        enhancer = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[kind]
        expected = enhancer(expected).enhance(factors[kind])
    draw = Draw(np.zeros((1, 4)), np.zeros(1, dtype=bool), np.array([order]), np.array([factors]))
    ours = jitter_colours(as_batch(image) / 255, draw)
    assert (
        np.abs(ours[0].permute(1, 2, 0).numpy() * 255 - np.asarray(expected).astype(float)).max() <= 3
    )  # Pillow rounds three times


def test_random_resized_boxes_follow_the_paper() -> None:
    extents = np.tile([[100, 80]], (4000, 1))
    boxes = Augmentation(size=32, crop="resized").draw(extents, np.random.default_rng(0)).boxes
    top, left, height, width = boxes.T
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + height <= 100).all()
    assert (left + width <= 80).all()
    share, aspect = height * width / 8000, width / height
    assert 0.07 < share.min() < 0.10
    assert share.max() > 0.8
    assert 0.72 < aspect.min() < 0.79
    assert 1.27 < aspect.max() < 1.38


def test_a_long_image_falls_back_to_its_centre() -> None:
    boxes = Augmentation(size=32, crop="resized", scale=(1.0, 1.0)).draw(
        np.array([[20, 200]]), np.random.default_rng(0)
    )
    assert boxes.boxes.tolist() == [[0, 86, 20, 27]]


def test_images_of_different_sizes_are_augmented_identically_together_and_alone() -> None:
    augmentation = Augmentation(size=24, crop="resized")
    small, large = noise(30, 40), noise(50, 35, seed=1)
    canvas = np.zeros((2, 50, 40, 3), dtype=np.uint8)
    canvas[0, :30, :40], canvas[1, :, :35] = small, large
    extents = np.array([[30, 40], [50, 35]])
    together = augment(canvas, extents, augmentation, np.random.default_rng(3))
    draw = augmentation.draw(extents, np.random.default_rng(3))
    for row, image in enumerate((small, large)):
        own = slice(row, row + 1)
        part = Draw(draw.boxes[own], draw.flips[own], draw.order[own], draw.factors[own])
        alone = jitter_colours(crop_and_resize(as_batch(image), extents[own], part, 24), part)
        torch.testing.assert_close(together[own], alone)
    assert together.min() >= 0
    assert together.max() <= 1


@pytest.mark.parametrize("crop", ["resized", "padded"])
def test_augmentation_is_identical_on_processor_and_other_devices(crop: Literal["resized", "padded"]) -> None:
    images = torch.from_numpy(np.stack([noise(40, 40, seed) for seed in range(20)])).permute(0, 3, 1, 2)
    extents = np.tile([[40, 40]], (20, 1))
    draw = Augmentation(size=36, crop=crop, padding=4).draw(extents, np.random.default_rng(5))
    cropped = crop_and_resize(images, extents, draw, 36)
    others = crop_together(images, extents, draw, 36)  # without rounding to grey levels
    torch.testing.assert_close(cropped, others, rtol=0, atol=1.6 / 255)
    assert (cropped - others).mean().abs() < 0.1 / 255
    torch.testing.assert_close(jitter_colours(cropped.clone(), draw), jitter_together(cropped, draw))


def test_an_image_too_small_for_its_crop_is_refused() -> None:
    with pytest.raises(
        FrnError, match=r"an image of \[20, 40\] pixels is too small for a 32-pixel crop with padding 4"
    ):
        Augmentation(size=32, crop="padded", padding=4).draw(np.array([[40, 40], [20, 40]]), np.random.default_rng(0))
