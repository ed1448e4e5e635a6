"""Exported backbones in onnxruntime sessions."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from frn_export.graphs.backbone import features_graph

from frn.backbones.backbone import Backbone
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model


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


@pytest.mark.parametrize("method", ["frn", "proto"])
@pytest.mark.parametrize(
    ("backbone", "last_pool", "size"),
    [
        ("conv4", True, 84),
        ("conv4", False, 32),
        ("resnet12", True, 32),
        ("resnet12-small", False, 32),
        ("resnet9-patch4", False, 84),
        ("litenet", True, 96),
    ],
)
def test_feature_maps_equal_those_of_torch_for_any_number_of_images(
    backbone: str, last_pool: bool, size: int, method: str
) -> None:
    model = random_model(backbone, last_pool=last_pool, size=size, method=method)
    run = session(features_graph(model))
    for n in (1, 3):
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


def test_the_file_describes_itself_and_its_use() -> None:
    model = random_model("conv4", last_pool=False)
    metadata = session(features_graph(model)).get_modelmeta().custom_metadata_map
    assert metadata["frn.format"] == "frn-features"
    assert json.loads(metadata["frn.head"]) == {"alpha": 0.0, "beta": 0.0, "gamma": 1.0}
    assert json.loads(metadata["frn.grid"]) == [4, 4]
    config = json.loads(metadata["frn.config"])
    assert config["transform"]["size"] == 32
    assert metadata["frn.config"] == json.dumps(config, sort_keys=True)


class OfOnesOwn(Backbone):
    """A network without a handwritten graph."""

    d, stride = 64, 8

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 64, 8, stride=8)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(images))


def test_a_backbone_without_a_handwritten_graph_is_traced() -> None:
    model = random_model("conv4", last_pool=False)
    model.backbone = OfOnesOwn()
    images = torch.rand(3, 3, 32, 32)
    (ours,) = session(features_graph(model)).run(["feature_map"], {"images": images.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(ours, model.feature_maps(images).numpy(), atol=1e-5)
