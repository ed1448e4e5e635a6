"""Extractors: what a file must contain, what its maps must be, and how files are read."""

import contextlib
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from frn_export.graphs.backbone import features_graph
from onnx import helper

from frn.errors import FrnError
from frn.estimator.loading import load_extractor
from frn.features.extractor import Extractor
from frn.models.zoo import DEFAULT_MODEL
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import UNTRAINED, Prior
from frn.system.hardware import own_cores
from tests.models import small_model


@pytest.fixture(scope="module")
def graph() -> onnx.ModelProto:
    return features_graph(small_model())


def changed(graph: onnx.ModelProto, **values: str) -> bytes:
    """Return a file with other metadata; names are without `frn.`."""
    other = onnx.ModelProto()
    other.CopyFrom(graph)
    known = {entry.key: entry.value for entry in graph.metadata_props}
    helper.set_model_props(other, known | {f"frn.{name}": value for name, value in values.items()})
    return bytes(other.SerializeToString())


@pytest.mark.parametrize(
    ("maps", "reason"),
    [
        (np.full((2, 16, 64), 1e12), ""),
        (np.full((2, 16, 64), -1e12), ""),
        (np.full((2, 16, 64), 1.01e12), r"is not finite, or exceeds 1e\+12: it is damaged"),
        (np.full((2, 16, 64), np.nan), "is not finite"),
        (np.zeros((2, 16, 63)), r"^m\.onnx: returned maps of shape \(2, 16, 63\), not \(2, 16, 64\)$"),
        (np.zeros((1, 16, 64)), r"returned maps of shape \(1, 16, 64\), not \(2, 16, 64\)"),
    ],
)
def test_maps_have_the_expected_shape_and_values_up_to_1e12(
    graph: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, maps: np.typing.NDArray[np.float64], reason: str
) -> None:
    extractor = Extractor(graph.SerializeToString(), "m.onnx", trusted=True, threads=1)
    asked: list[dict[str, np.typing.NDArray[np.float32]]] = []

    def run(inputs: dict[str, np.typing.NDArray[np.float32]]) -> np.typing.NDArray[np.float64]:
        asked.append(inputs)
        return maps

    monkeypatch.setattr(extractor.session, "run", run)
    with pytest.raises(FrnError, match=reason) if reason else contextlib.nullcontext():
        assert extractor.feature_maps(np.full((2, 32, 32, 3), 51, np.uint8)) is maps
    assert asked[0]["images"].shape == (2, 3, 32, 32)
    np.testing.assert_allclose(asked[0]["images"], 51 / 255)


def test_extractors_use_all_cores_and_check_the_file_by_default(graph: onnx.ModelProto, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(graph.SerializeToString())
    assert Extractor.open(tmp_path / "m.onnx", trusted=True).threads == own_cores()
    bad = onnx.load(tmp_path / "m.onnx")
    bad.graph.node.append(helper.make_node("ConstantOfShape", ["shape"], ["x"]))
    for path in (tmp_path / "m.onnx", tmp_path / "bad.onnx"):
        path.write_bytes(bad.SerializeToString())
        with pytest.raises(FrnError, match="uses the operator"):
            Extractor.open(path)
    with pytest.raises(FrnError, match="uses the operator"):
        Extractor(bad.SerializeToString(), "m.onnx")


def test_prior_and_augmentation_follow_the_metadata(graph: onnx.ModelProto) -> None:
    def opened(**values: str) -> Extractor:
        return Extractor(changed(graph, **values), "m.onnx", trusted=True, threads=1)

    plain = opened()
    assert (plain.tta, plain.plain_sha256) == ("none", plain.sha256)
    assert plain.prior == Prior.trained(HeadParameters())
    mirrored = opened(plain=plain.sha256)
    assert (mirrored.tta, mirrored.plain_sha256) == ("hflip", plain.sha256)
    config = next(entry.value for entry in graph.metadata_props if entry.key == "frn.config")
    untrained = opened(config=json.dumps(json.loads(config) | {"backbone": "timm:resnet18"}))
    assert (untrained.untrained_head, untrained.prior) == (True, UNTRAINED)
    other = opened(config=json.dumps(json.loads(config) | {"method": "proto"}), head="{}")
    assert (other.method, other.head, other.prior) == ("proto", None, UNTRAINED)


def test_the_default_model_has_the_variety_of_usual_photos() -> None:
    prior = load_extractor(DEFAULT_MODEL, "cpu").prior
    assert 0 < prior.likeness < prior.variety < 1
