"""Feature extractors as graphs, also with mirror images and views."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from frn_export.export import ExportOptions, export_model
from frn_export.graphs.backbone import features_graph
from frn_export.graphs.mirror import augmented
from PIL import Image

from frn.data.folders import scan
from frn.data.pixel_cache import load_images
from frn.errors import FrnError
from frn.estimator.loading import load_classifier, load_extractor
from frn.evaluation.features import OnnxExtractor, TorchExtractor
from frn.features.extractor import Extractor
from frn.features.feature_cache import Maps
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Classifier, Prediction
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model
from frn.projects.project import ModelReference, Project, save_project
from tests.drawings import MOTHS, PHOTO


def random_model(backbone: str, *, last_pool: bool = True, size: int = 32, method: str = "frn") -> Model:
    """Give the model random weights, and BatchNorm statistics that differ from those of a new network."""
    config = ModelConfig(
        backbone=backbone, method=method, last_pool=last_pool, transform=EvaluationTransform(size=size)
    )
    model = Model(config)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, 0, 0.2)
            torch.nn.init.normal_(module.running_mean, 0, 0.2)  # type: ignore[arg-type]
            torch.nn.init.uniform_(module.running_var, 0.5, 2)  # type: ignore[arg-type]
    return model.eval()


def session(graph: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("backbone", "last_pool", "size", "method"),
    [
        ("conv4", True, 84, "frn"),
        ("conv4", False, 32, "proto"),
        ("resnet12", True, 32, "frn"),  # divides its maps
        ("resnet12", True, 32, "proto"),
        ("resnet12-small", False, 32, "frn"),
        ("resnet9-patch4", False, 84, "frn"),
        ("litenet", True, 96, "frn"),
    ],
)
def test_feature_maps_equal_those_of_torch_for_any_number_of_images(
    backbone: str, last_pool: bool, size: int, method: str
) -> None:
    model = random_model(backbone, last_pool=last_pool, size=size, method=method)
    if backbone == "litenet":
        model.adapter = torch.nn.Linear(model.d, model.d, bias=False)  # of `frn finetune`
    assert_same_maps(model, 1, 3)


def assert_same_maps(model: Model, *counts: int) -> None:
    run, size = session(features_graph(model)), model.config.transform.size
    for n in counts:
        images = torch.rand(n, 3, size, size)
        with torch.no_grad():
            expected = model.feature_maps(images).numpy()
        (ours,) = run.run(["feature_map"], {"images": images.numpy()})
        assert ours.shape == expected.shape
        assert np.abs(ours - expected).max() <= 5e-6 * np.abs(expected).max()


def test_two_exports_give_the_same_bytes_in_one_clean_file(tmp_path: Path) -> None:
    model = random_model("conv4")
    for name in ("a", "b"):
        (tmp_path / f"{name}.onnx").write_bytes(features_graph(model).SerializeToString(deterministic=True))
    data = (tmp_path / "a.onnx").read_bytes()
    assert data == (tmp_path / "b.onnx").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.onnx", "b.onnx"]
    assert str(Path.home()).encode() not in data
    assert b"site-packages" not in data
    graph = onnx.load_from_string(data)
    assert [(opset.domain, opset.version) for opset in graph.opset_import] == [("", 18)]
    assert {node.op_type for node in graph.graph.node} <= {
        "Sub", "Div", "Conv", "MaxPool", "Relu", "Reshape", "Transpose",
    }  # fmt: skip


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
    assert augmented(both.data, "hflip") == both.data
    for tta, reason in (("views", "already contains --tta hflip"), ("auto", "is the same for every photo")):
        with pytest.raises(FrnError, match=reason):
            augmented(both.data, tta)  # type: ignore[arg-type]


def test_exported_mirror_classifier_gives_the_same_answer_for_a_mirrored_photo(
    plain: Extractor, tmp_path: Path
) -> None:
    exported = export_model(load_model("conv4"), tmp_path, ExportOptions(tta="hflip"), scan(MOTHS).members)
    assert exported.differences["batch_difference"].share <= 5e-6  # the same pixels, unlike in classifier.onnx
    session = onnxruntime.InferenceSession(tmp_path / "classifier.onnx")
    photo = plain.transform(Image.open(PHOTO))
    names = ["probability", "error_map"]
    (shares, errors), (same, mirror) = (
        session.run(names, {"image": np.ascontiguousarray(image)}) for image in (photo, photo[:, ::-1])
    )
    np.testing.assert_allclose(same, shares, atol=1e-5)
    np.testing.assert_allclose(mirror[:, :, ::-1], errors, atol=1e-5)


@pytest.fixture(scope="module")
def views() -> Extractor:
    return load_extractor("conv4", "cpu", "views")


def test_views_are_four_overlapping_crops(plain: Extractor, views: Extractor) -> None:
    side, (h, w), (r, d) = plain.transform.size, plain.grid, plain.shape
    whole, first = side * 3 // 2, side // 2
    photos = np.random.default_rng(1).integers(0, 256, (2, whole, whole, 3), dtype=np.uint8)
    assert views.transform == EvaluationTransform(size=whole, resize=whole, square=True)
    assert (views.tta, views.grid, views.shape) == ("views", (3 * h, 3 * w), (4 * r, d))
    crops = [photos[:, y : y + side, x : x + side] for y in (0, first) for x in (0, first)]
    expected = np.concatenate([plain.feature_maps(crop) for crop in crops], 1)
    np.testing.assert_allclose(views.feature_maps(photos), expected, atol=1e-4)


def test_error_maps_of_views_average_the_crops_at_each_place(views: Extractor) -> None:
    h, w = views.grid
    np.testing.assert_allclose(views.on_grid(np.ones((3, views.shape[0]))), 1)
    lit = np.zeros((1, views.shape[0]))
    lit[0, [0, -1]] = 1  # the first location of the first crop, which no other crop sees, and the last of the last
    heat = views.on_grid(lit)[0]
    assert np.argwhere(heat).tolist() == [[y, x] for k in (0, h - 2) for y in (k, k + 1) for x in (k, k + 1)]
    assert heat[0, 0] == heat[h - 1, w - 1] == 1
    lit = np.zeros((1, 4, views.shape[0] // 4))
    lit[0, 3, 0] = 1  # the first location of the last crop is in the middle third, which four crops see
    assert views.on_grid(lit.reshape(1, -1))[0, h // 3, w // 3] == 0.25


def test_a_project_with_views_gives_the_same_answers_in_onnx(views: Extractor, tmp_path: Path) -> None:
    members, query = scan(MOTHS).members, PHOTO
    classifier = Classifier(views)
    classifier.enroll(members)
    path = tmp_path / "moths.frn.json"
    save_project(path, Project(ModelReference.of("conv4", views, tmp_path), classifier.state))
    loaded, _ = load_classifier(path)
    assert loaded.extractor.tta == "views"
    ((_, answer),) = loaded.classify([query])
    assert isinstance(answer, Prediction)
    export_model(load_model("conv4"), tmp_path / "out", ExportOptions(tta="views"), members)
    session = onnxruntime.InferenceSession(tmp_path / "out" / "classifier.onnx")
    photo = np.asarray(Image.open(query).convert("RGB"))
    shares, errors, heat = session.run(["probability", "class_error", "error_map"], {"image": photo})
    np.testing.assert_allclose(shares, list(answer.probabilities.values()), atol=2e-3)
    np.testing.assert_allclose(errors, list(answer.errors.values()), atol=2e-3)
    pixels = views.transform(Image.open(query).convert("RGB"))
    np.testing.assert_allclose(heat, loaded.error_maps(views.feature_maps(pixels[None])[0]), rtol=1e-2, atol=1e-2)


def test_torch_gives_the_same_maps_with_views(views: Extractor) -> None:
    images = load_images(scan(MOTHS), views.transform)
    expected = views.feature_maps(images.images()[:])
    exported = OnnxExtractor(load_extractor("conv4", "cpu"), tta="views")
    for extractor in (TorchExtractor(load_model("conv4"), tta="views"), exported):
        assert extractor.transform == views.transform
        np.testing.assert_allclose(extractor.extract(images).numpy(), expected, atol=1e-3)


def test_views_need_the_head_of_frn(plain: Extractor) -> None:
    model = onnx.load_model_from_string(plain.data)
    config = next(entry for entry in model.metadata_props if entry.key == "frn.config")
    config.value = config.value.replace('"frn"', '"proto"')
    with pytest.raises(FrnError, match=r"this is a proto model\. Use --tta hflip"):
        augmented(model.SerializeToString(), "views")


def test_a_foreign_file_is_checked_before_it_is_augmented(tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_bytes(b"\0" * 9)
    with pytest.raises(FrnError, match=r"x\.onnx"):
        load_extractor(tmp_path / "x.onnx", "cpu", "hflip")
