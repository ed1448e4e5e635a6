from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from frn_export.export import ExportOptions, export_model
from frn_export.graphs.mirror import mirrored
from PIL import Image

from frn.data.folders import scan
from frn.data.pixel_cache import load_images
from frn.estimator.loading import load_extractor
from frn.evaluation.features import OnnxExtractor, TorchExtractor
from frn.inference.extractor import Extractor
from frn.inference.feature_cache import Maps
from frn.inference.project import ModelReference
from frn.models.model import load_model
from frn.models.zoo import assets_folder

MOTHS = assets_folder() / "samples" / "moths"


@pytest.fixture(scope="module")
def plain() -> Extractor:
    return load_extractor("conv4", "cpu")


@pytest.fixture(scope="module")
def both() -> Extractor:
    return load_extractor("conv4", "cpu", "hflip")


@pytest.fixture(scope="module")
def pixels(plain: Extractor) -> np.ndarray:
    side = plain.transform.size
    return np.random.default_rng(0).integers(0, 256, (3, side, side, 3), dtype=np.uint8)


def turned(maps: Maps, extractor: Extractor) -> Maps:
    return maps.reshape(len(maps), *extractor.grid, -1)[:, :, ::-1].reshape(maps.shape)


def test_map_is_the_mean_of_photo_and_mirror_image(plain: Extractor, both: Extractor, pixels: np.ndarray) -> None:
    other = turned(plain.feature_maps(pixels[:, :, ::-1]), plain)
    np.testing.assert_allclose(both.feature_maps(pixels), (plain.feature_maps(pixels) + other) / 2, atol=1e-6)
    mirrored_maps = both.feature_maps(pixels[:, :, ::-1])
    np.testing.assert_allclose(mirrored_maps, turned(both.feature_maps(pixels), both), atol=1e-6)


def test_mirror_images_change_the_hash_and_are_noted_in_projects(plain: Extractor, both: Extractor) -> None:
    assert both.sha256 != plain.sha256
    noted = ModelReference.of("conv4", both, Path())
    assert noted.tta == "hflip"
    assert replace(noted, tta="none") == ModelReference.of("conv4", plain, Path())
    assert mirrored(both.data) == both.data


def test_exported_mirror_classifier_gives_the_same_answer_for_a_mirrored_photo(
    plain: Extractor, tmp_path: Path
) -> None:
    export_model(load_model("conv4"), tmp_path, ExportOptions(tta="hflip"), scan(MOTHS).members)
    session = onnxruntime.InferenceSession(tmp_path / "classifier.onnx")
    photo = plain.transform(Image.open(assets_folder() / "samples" / "queries" / "eyed footman 6.jpg"))
    names = ["probability", "error_map"]
    (shares, errors), (same, mirror) = (
        session.run(names, {"image": np.ascontiguousarray(image)}) for image in (photo, photo[:, ::-1])
    )
    np.testing.assert_allclose(same, shares, atol=1e-5)
    np.testing.assert_allclose(mirror[:, :, ::-1], errors, atol=1e-5)


def test_torch_gives_the_same_maps_with_mirror_images(both: Extractor) -> None:
    images = load_images(scan(MOTHS), both.transform)
    maps = TorchExtractor(load_model("conv4"), mirror=True).extract(images).numpy()
    np.testing.assert_allclose(maps, both.feature_maps(images.images()[:]), atol=1e-3)
    exported = OnnxExtractor(load_extractor("conv4", "cpu"), mirror=True).extract(images).numpy()
    np.testing.assert_allclose(maps, exported, atol=1e-3)
    plain = load_extractor("conv4", "cpu")
    for extractor in (TorchExtractor(load_model("conv4")), OnnxExtractor(plain)):  # without mirror images by default
        expected = plain.feature_maps(images.images()[:])
        np.testing.assert_allclose(extractor.extract(images).numpy(), expected, atol=1e-3)
