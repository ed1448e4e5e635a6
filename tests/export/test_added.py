"""Networks added from files and packages, and the layer that is chosen."""

import json
import time
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from frn_export import added
from frn_export.added import add_file, add_model
from frn_export.graphs.backbone import features_graph
from frn_export.layer_choice import Candidate, channel_maps, choose_layer, pools_of
from numpy.typing import NDArray
from PIL import Image

from frn.errors import FrnError
from frn.estimator.loading import load_extractor
from frn.features.extractor import Extractor
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Classifier
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model, save_model
from frn.models.zoo import Network
from tests.drawings import QUERIES
from tests.models import small_model

KNOWN = Network(backbone="timm:known.v1", about="a network", size=48, licence="MIT")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRN_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(Extractor, "milliseconds", lambda extractor: 1.2543)
    monkeypatch.setattr(time, "strftime", lambda form: f"today, as {form}")
    return tmp_path / "models"


@cache
def small(method: str = "frn") -> Model:
    return Model(
        ModelConfig(backbone="conv4", method=method, last_pool=False, transform=EvaluationTransform(size=16))
    ).eval()


@pytest.mark.parametrize(("given", "name", "method"), [(None, "mine", "frn"), ("other", "other", "proto")])
def test_file_is_added_under_its_own_name_by_default(
    folder: Path, tmp_path: Path, given: str | None, name: str, method: str
) -> None:
    save_model(small(method), tmp_path / "mine.safetensors")
    found, files = add_file(str(tmp_path / "mine.safetensors"), name=given)
    assert (found, files.extractor) == (name, folder / name / "features.onnx")
    assert files.extractor is not None
    assert Extractor.open(files.extractor).shape == (4, 64)
    assert load_model(folder / name / "model.safetensors").d == 64
    assert (folder / name / "head.onnx").exists() == (method == "proto")
    assert (folder / name / "notes.json").read_text() == (
        '{\n  "backbone": "conv4",\n  "about": "mine.safetensors",\n'
        '  "milliseconds": 1.3,\n  "added": "today, as %Y-%m-%d"\n}\n'
    )


@cache
def graph() -> onnx.ModelProto:
    return features_graph(small())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> list[dict[str, Any]]:
    """Record what would be imported; the catalogue has one network."""
    found: list[dict[str, Any]] = []

    def imported(backbone: str, file: Path, **options: Any) -> Model:
        found.append({"backbone": backbone, "file": file, **options})
        return small()

    agrees = SimpleNamespace(require=lambda: None)
    monkeypatch.setattr(added, "compare_features", lambda model, graph: agrees)
    monkeypatch.setattr(added, "features_graph", lambda model: graph())
    monkeypatch.setattr(added, "catalogue", lambda: {"known": KNOWN})

    def find_weights(backbone: str, file: Path | None, *, download: bool, progress: object) -> Path:
        assert download
        return file or tmp_path / "cached.bin"

    monkeypatch.setattr(added, "find_weights", find_weights)
    monkeypatch.setattr(added, "import_pretrained", imported)
    return found


@pytest.mark.parametrize(
    ("wanted", "options", "name", "size"),
    [
        ("known", {}, "known", 48),
        ("known", {"size": 64}, "known", 64),
        ("timm:tiny.a1_in1k", {}, "tiny", None),
        ("torchvision:resnet18", {"name": "mine"}, "mine", None),
        ("timm:tiny.a1_in1k", {"layer": 2}, "tiny", None),
        ("timm:tiny.a1_in1k", {"method": "proto"}, "tiny", None),
    ],
)
def test_backbone_is_added_under_its_name_up_to_the_first_dot(
    asked: list[dict[str, Any]], folder: Path, wanted: str, options: dict[str, Any], name: str, size: int | None
) -> None:
    (folder / ".other.frn-part").mkdir(parents=True)  # left by a killed program
    assert add_model(wanted, **options)[0] == name
    assert [path.name for path in folder.iterdir()] == [name]
    with pytest.raises(FrnError, match="already exists"):
        add_model(wanted, **options)
    assert len(asked) == 1  # before anything is imported
    backbone = KNOWN.backbone if wanted == "known" else wanted
    backbone += f"@{options['layer']}" if "layer" in options else ""
    assert (asked[0]["backbone"], asked[0]["size"]) == (backbone, size)
    assert asked[0]["method"] == options.get("method", "frn")
    notes = json.loads((folder / name / "notes.json").read_text())
    assert (notes["backbone"], notes["about"]) == (backbone, "a network" if wanted == "known" else wanted)
    assert notes["weights"] == "cached.bin"


def test_network_that_computes_other_features_than_the_catalogue_expects_is_refused(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = added.sample_similarity(Extractor(graph().SerializeToString(), "known", trusted=True))
    for similarity, size in ((found, None), (found - 0.009, 48), (found + 0.012, 64)):  # another size, other features
        network = Network(backbone="timm:known", about="a network", size=48, similarity=similarity)
        monkeypatch.setattr(added, "catalogue", lambda network=network: {"known": network})
        add_model("known", name=f"good-{size}", size=size)
    with pytest.raises(FrnError, match=r"the similarity of two sample photos differs by -0\.012 from the expected"):
        add_model("known")


def test_similarity_is_the_cosine_of_the_mean_features(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = np.array([[[3, 1], [1, 3]], [[6, 0], [4, 0]]], np.float32)  # means of 45 and 0 degrees
    monkeypatch.setattr(Extractor, "feature_maps", lambda extractor, pixels: maps)
    similarity = added.sample_similarity(Extractor(graph().SerializeToString(), "known", trusted=True))
    assert similarity == pytest.approx(np.sqrt(0.5))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"layer": "auto"}, r"chooses on photos of --classes FOLDER"),
        ({"classes": {"a": [Path("x")]}}, r"chooses on photos of --classes FOLDER"),
        ({"layer": "auto", "classes": {"a": [Path("x")]}, "method": "proto"}, "compares maps with the head frn"),
    ],
)
def test_options_that_auto_layer_cannot_use_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(FrnError, match=reason):
        add_model("torchvision:resnet18", **options)


def test_chosen_layer_and_the_plain_last_one_are_noted(
    asked: list[dict[str, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = [Candidate(*at, 9, 9, -1) for at in ((3, "whitened"), (2, "plain"), (1, "whitened"), (1, "plain"))]
    monkeypatch.setattr(added, "choose_layer", lambda build, classes, report: (build(3), tried))
    add_model("timm:tiny", layer="auto", classes={"a": [Path("x")]})
    notes = json.loads((folder / "tiny" / "notes.json").read_text())
    assert (notes["chosen"], notes["unchosen"]) == (str(tried[0]), str(tried[-1]))
    assert notes["backbone"] == asked[0]["backbone"] == "timm:tiny@3"


def test_weights_in_a_package_are_used_unless_a_file_is_given(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packaged = Network(backbone="timm:known", about="a network", package="weights")
    monkeypatch.setattr(added, "catalogue", lambda: {"known": packaged})
    monkeypatch.setattr(added, "packaged_weights", lambda package: tmp_path / f"{package}.bin")
    add_model("known", name="a")
    add_model("known", name="b", weights=tmp_path / "own.bin")
    assert [each["file"].name for each in asked] == ["weights.bin", "own.bin"]


def test_export_that_differs_from_the_model_is_not_added(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.cache_clear()
    save_model(small(), tmp_path / "mine.safetensors")
    small.cache_clear()
    other = features_graph(small())
    monkeypatch.setattr(added, "features_graph", lambda model: other)
    with pytest.raises(FrnError, match="differs from the original"):
        add_file(str(tmp_path / "mine.safetensors"))
    assert not folder.exists() or not list(folder.iterdir())


@pytest.mark.nightly
def test_auto_layer_of_a_transformer_classifies_as_well_as_its_notes_say(folder: Path, tmp_path: Path) -> None:
    timm = pytest.importorskip("timm", reason="the extra `timm` is not installed")
    torch.manual_seed(0)
    torch.save(timm.create_model("vit_tiny_patch16_224").state_dict(), tmp_path / "vit.pth")
    draws, classes = np.random.default_rng(0), dict[str, list[Path]]()
    for name, mean in (("dark", 90), ("middle", 100), ("light", 110)):
        for number in range(4):
            path = tmp_path / f"{name}{number}.png"
            Image.fromarray(draws.normal(mean, 60, (48, 48, 3)).clip(0, 255).astype(np.uint8)).save(path)
            classes.setdefault(name, []).append(path)
    tried: list[str] = []
    added = partial(add_model, "timm:vit_tiny_patch16_224", weights=tmp_path / "vit.pth", size=48, layer="auto")
    name, files = added(classes=classes, report=tried.append)
    notes = json.loads((files.weights.parent / "notes.json").read_text())
    assert notes["chosen"] in tried
    assert notes["unchosen"] == tried[0]
    assert len(tried) == 12
    classifier = Classifier(load_extractor(name, "cpu"))
    classifier.enroll(classes)
    assert classifier.left_out
    right = (classifier.left_out[0].argmin(1) == classifier.left_out[1]).sum()
    assert f"{right} of 12 photos right by leave-one-out" in notes["chosen"]


KEEPS, BLURS = np.eye(3, dtype=np.float32), np.ones((3, 3), np.float32)


class Layer:
    """A model whose channels are the mixed colours of each pixel."""

    def __init__(self, number: int, mixed: NDArray[np.float32]) -> None:
        self.number, self.mixed, self.adapters = number, torch.from_numpy(mixed), list[Any]()
        self.config = self
        self.transform = EvaluationTransform(size=8)

    def feature_maps(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(2).mT @ self.mixed

    def adapt(self, channels: NDArray[np.float32]) -> None:
        self.adapters.append(channels)


@pytest.fixture
def classes(tmp_path: Path) -> dict[str, list[Path]]:
    draws, found = np.random.default_rng(0), dict[str, list[Path]]()
    for name, colour, photos in (("a", (200, 60, 60), 2), ("b", (60, 200, 60), 2), ("c", (60, 60, 200), 1)):
        found[name] = [tmp_path / f"{name}{number}.png" for number in range(photos)]
        for path in found[name]:
            Image.fromarray(draws.normal(colour, 40, (8, 8, 3)).clip(0, 255).astype(np.uint8)).save(path)
    return found


@pytest.mark.parametrize(
    ("layers", "best"), [([KEEPS], 1), ([BLURS, KEEPS], 2), ([KEEPS] * 5, 1)], ids=["one", "two", "five"]
)
def test_best_of_the_last_four_layers_is_adapted(classes: dict[str, list[Path]], layers: list[Any], best: int) -> None:
    def build(number: int) -> Any:
        if number > len(layers):
            raise FrnError(f"no layer {number}")
        return Layer(number, layers[number - 1])

    lines: list[str] = []
    model: Any
    model, tried = choose_layer(build, classes, lines.append)
    assert sorted(each.layer for each in tried) == [*np.repeat(range(1, min(len(layers), 4) + 1), 3)]
    assert sorted(map(str, tried)) == sorted(lines)
    assert str(tried[0]) == f"layer {best}, whitened: 4 of 4 photos right by leave-one-out"
    assert model.number == best
    (channels,) = model.adapters
    np.testing.assert_array_equal(channels, dict(channel_maps(pools_of(model, classes)))["whitened"])


@pytest.mark.parametrize(("photos", "reason"), [((2, 2), "no layer 1"), ((2, 1), "of two photos or more, and 1 of 2")])
def test_a_network_without_layers_and_classes_too_small_are_reported(photos: tuple[int, ...], reason: str) -> None:
    def build(layer: int) -> Any:
        raise FrnError(f"no layer {layer}")

    with pytest.raises(FrnError, match=reason):
        choose_layer(build, {str(place): [Path("x")] * count for place, count in enumerate(photos)}, print)


def test_pools_are_the_feature_maps_of_the_photos() -> None:
    model, paths = small_model(), sorted(QUERIES.iterdir())[:2]
    extractor = Extractor(features_graph(model).SerializeToString(), "m")
    expected = extractor.feature_maps(np.stack([extractor.transform(open_image(path)) for path in paths]))
    (pool,) = pools_of(model, {"a": paths})
    np.testing.assert_allclose(pool, expected, atol=1e-5 * expected.max())


def test_channel_maps_whiten_or_project_and_keep_the_energy() -> None:
    spread = np.array([9, 5, 3, 1, 0.5, 0.2, 0.1])
    pool = (np.random.default_rng(0).normal(size=(40, 30, 7)) * spread).astype(np.float32)
    maps = dict(channel_maps([pool]))
    assert maps["plain"] is None
    for name, rank in (("principal half", 4), ("whitened", 7)):
        channels = maps[name]
        assert channels is not None
        mapped = pool @ channels
        np.testing.assert_allclose(np.square(mapped).sum(), np.square(pool).sum(), rtol=1e-5)
        assert np.linalg.matrix_rank(channels) == rank
    before, after = (np.einsum("kri,krj->ij", each, each) for each in (pool, mapped))
    whitened = before @ np.linalg.inv(before + before.trace() / 7 * np.eye(7))  # (M + mean variance I)^-1
    np.testing.assert_allclose(after / after.trace(), whitened / whitened.trace(), atol=1e-4)
