"""Checkpoints from the authors' code, which do not record how images are preprocessed."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from frn.errors import FrnError, FrnWarning
from frn.models.header import ModelConfig
from frn.models.model import Model, import_reference, load_model
from frn.training.presets import find_preset
from tests.commands import frn

LAYERS = {"conv": "0", "norm": "1"}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Make random weights under the names of the authors' code."""
    model = Model(ModelConfig(backbone="conv4", method="frn"))
    state = {"scale": torch.ones(1), "r": torch.zeros(2)}
    for key, value in model.backbone.state_dict().items():
        _, block, part, name = key.split(".")
        state[f"feature_extractor.layers.{3 * int(block)}.layers.{LAYERS[part]}.{name}"] = value
    torch.save(state, tmp_path / "model_Conv-4.pth")
    return tmp_path / "model_Conv-4.pth"


def photo(width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)


def as_the_authors(image: Image.Image, *, square: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The authors' `test_pre`: resize to 92, then crop the central 84 x 84 pixels."""
    from torchvision.transforms import CenterCrop, Compose, Resize

    return np.asarray(Compose([Resize([92, 92] if square else 92), CenterCrop(84)])(image))


@pytest.mark.parametrize(
    ("preset", "square"), [("cub-cropped-resnet12", True), ("aircraft-conv4", True), ("mini-imagenet-resnet12", False)]
)
def test_preset_defines_the_preprocessing(checkpoint: Path, preset: str, square: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FrnWarning)
        transform = load_model(checkpoint, transform=find_preset(preset).transform).config.transform
    image = photo(210, 120)
    right, wrong = (as_the_authors(image, square=kind).astype(int) for kind in (square, not square))
    assert np.abs(transform(image).astype(int) - right).max() <= 1
    assert np.abs(transform(image).astype(int) - wrong).max() > 20
    small = photo(84, 84)
    assert np.array_equal(transform(small), np.asarray(small))  # images of `test_pre` are left unchanged


def test_without_a_preset_a_message_says_that_photos_are_treated_as_uncropped(checkpoint: Path) -> None:
    with pytest.warns(FrnWarning, match=r"weights alone do not record .* --preset NAME"):
        transform = import_reference(checkpoint).config.transform
    image = photo(210, 120)
    assert np.abs(transform(image).astype(int) - as_the_authors(image, square=False)).max() <= 1
    assert np.array_equal(transform(photo(84, 84)), np.asarray(photo(84, 84)))


def test_added_checkpoint_can_be_named_in_every_command(checkpoint: Path) -> None:
    made = frn("models", "add", checkpoint, "--preset", "cub-cropped-conv4", "--name", "cub", "--json")
    assert made.exit_code == 0
    assert "warning" not in made.stderr
    out = Path(json.loads(made.stdout)["cub"]["path"])
    assert load_model("cub").grid == (5, 5)
    model, images = load_model(out), torch.rand(2, 3, 84, 84)
    assert model.config.transform.square
    theirs = load_model(checkpoint, transform=model.config.transform)
    assert torch.equal(model.feature_maps(images), theirs.feature_maps(images))
    with pytest.raises(FrnError, match="already contains its preprocessing"):
        load_model(out, transform=model.config.transform)


def test_commands_print_a_one_line_warning(checkpoint: Path, moths: Path) -> None:
    words = ("eval", checkpoint, "--data", moths, "--shot", 1, "--queries", 2, "--episodes", 2, "--json")
    plain = frn(*words)
    assert plain.exit_code == 0
    assert plain.stderr.startswith("warning: model_Conv-4.pth: weights alone do not record")
