"""Adding models: default names, notes and reasons for refusal."""

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
from frn_export.layer_choice import channel_maps, choose_layer
from PIL import Image

from frn.errors import FrnError
from frn.estimator.loading import load_extractor
from frn.features.extractor import Extractor
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Classifier
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model, save_model
from frn.models.zoo import Network

KNOWN = Network(backbone="timm:known.v1", about="a network", size=48, licence="MIT")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRN_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(Extractor, "milliseconds", lambda extractor: 1.2543)
    monkeypatch.setattr(time, "strftime", lambda form: f"today, as {form}")
    return tmp_path / "models"


@cache
def small() -> Model:
    return Model(
        ModelConfig(backbone="conv4", method="frn", last_pool=False, transform=EvaluationTransform(size=16))
    ).eval()


@pytest.mark.parametrize(("given", "name"), [(None, "mine"), ("other", "other")])
def test_file_is_added_under_its_own_name_by_default(
    folder: Path, tmp_path: Path, given: str | None, name: str
) -> None:
    save_model(small(), tmp_path / "mine.safetensors")
    found, files = add_file(str(tmp_path / "mine.safetensors"), name=given)
    assert (found, files.extractor) == (name, folder / name / "features.onnx")
    assert files.extractor is not None
    assert Extractor.open(files.extractor).shape == (4, 64)
    assert load_model(folder / name / "model.safetensors").d == 64
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
    ],
)
def test_backbone_is_added_under_its_name_up_to_the_first_dot(
    asked: list[dict[str, Any]], folder: Path, wanted: str, options: dict[str, Any], name: str, size: int | None
) -> None:
    assert add_model(wanted, **options)[0] == name
    backbone = KNOWN.backbone if wanted == "known" else wanted
    backbone += f"@{options['layer']}" if "layer" in options else ""
    assert (asked[0]["backbone"], asked[0]["size"], asked[0]["method"]) == (backbone, size, "frn")
    notes = json.loads((folder / name / "notes.json").read_text())
    assert (notes["backbone"], notes["about"]) == (backbone, "a network" if wanted == "known" else wanted)
    assert notes["weights"] == "cached.bin"


def test_network_that_computes_other_features_than_the_catalogue_expects_is_refused(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = added.sample_similarity(Extractor(graph().SerializeToString(), "known", trusted=True))
    for similarity, size in ((found, None), (found + 0.1, 64)):  # another size has other features
        network = Network(backbone="timm:known", about="a network", size=48, similarity=similarity)
        monkeypatch.setattr(added, "catalogue", lambda network=network: {"known": network})
        add_model("known", name=f"good-{size}", size=size)
    with pytest.raises(FrnError, match=r"the similarity of two sample photos differs by -0\.100 from the expected"):
        add_model("known")


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
    with pytest.raises(FrnError, match=r"needs two classes of two photos or more, and 1 of 2 have them"):
        added(name="other", classes={"a": classes["dark"], "b": classes["light"][:1]})
    with pytest.raises(FrnError, match=r"chooses on photos of --classes FOLDER"):
        added(name="other")


def test_auto_layer_says_why_a_network_has_no_layer() -> None:
    def build(layer: int) -> Model:
        raise FrnError(f"no layer {layer}")

    with pytest.raises(FrnError, match="no layer 1"):
        choose_layer(build, {"a": [Path("1"), Path("2")], "b": [Path("3"), Path("4")]}, print)


def test_channel_maps_whiten_or_project_and_keep_the_energy() -> None:
    spread = np.array([9, 5, 3, 1, 0.5, 0.2])
    pool = (np.random.default_rng(0).normal(size=(40, 30, 6)) * spread).astype(np.float32)
    maps = dict(channel_maps([pool]))
    assert maps["plain"] is None
    for name, rank in (("principal half", 3), ("whitened", 6)):
        channels = maps[name]
        assert channels is not None
        mapped = pool @ channels
        np.testing.assert_allclose(np.square(mapped).sum(), np.square(pool).sum(), rtol=1e-5)
        assert np.linalg.matrix_rank(channels) == rank
