"""Exported backbones in onnxruntime sessions."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from frn_export.graphs.backbone import features_graph

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
    assert_same_maps(model, 1, 3)
    model.adapter = torch.nn.Linear(model.d, model.d, bias=False)  # of `frn finetune`
    assert_same_maps(model, 2)


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
