"""Feature maps of stored images, from torch and from an exported model."""

from typing import Any

import numpy as np
import pytest
import torch

from frn.evaluation.features import OnnxExtractor, TorchExtractor, turned_back
from frn.features.extractor import Extractor
from frn.models.model import load_model
from frn.models.zoo import shipped_extractors
from tests.models import small_model


class Pixels(list[np.typing.NDArray[np.uint8]]):
    """Stored images, without their file."""

    def images(self) -> np.typing.NDArray[np.uint8]:
        return np.stack(self)


def noise(count: int) -> Any:
    return Pixels(np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8))


@pytest.fixture(params=["torch", "onnx"])
def extractors(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """The same model without and with mirror images."""
    if request.param == "torch":
        return TorchExtractor(small_model()), TorchExtractor(small_model(), tta="hflip")
    exported = Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1)
    return OnnxExtractor(exported), OnnxExtractor(exported, tta="hflip")


def test_maps_are_computed_in_batches_with_progress(
    extractors: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    images, seen = noise(10), []
    whole = extractors[0].extract(images)
    monkeypatch.setattr("frn.evaluation.features.BATCH", 4)
    found = extractors[0].extract(images, lambda *done: seen.append(done))
    torch.testing.assert_close(found, whole)
    assert seen == [(4, 10), (8, 10), (10, 10)]


def test_mirrored_maps_are_the_mean_of_both_orientations(extractors: tuple[Any, Any]) -> None:
    torch.manual_seed(0)
    plain, mirrored = extractors
    if isinstance(plain, TorchExtractor):
        mirrored.model.load_state_dict(plain.model.state_dict())
    images = noise(3)
    flipped = Pixels([each[:, ::-1] for each in images])
    other = turned_back(plain.extract(flipped), (4, 4))
    torch.testing.assert_close(mirrored.extract(images), (plain.extract(images) + other) / 2)


def test_torch_and_exported_models_scale_pixels_by_255() -> None:
    exported = Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1)
    model, images = load_model("conv4"), noise(2)
    pixels = torch.from_numpy(images.images()).permute(0, 3, 1, 2).double() / 255
    with torch.no_grad():
        expected = model.feature_maps(pixels.float())
    torch.testing.assert_close(TorchExtractor(model).extract(images), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(OnnxExtractor(exported).extract(images), expected, rtol=1e-4, atol=1e-5)
