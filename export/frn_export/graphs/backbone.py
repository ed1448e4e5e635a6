"""ONNX graph of a backbone: images in [0, 1] to feature maps, with normalisation and folded BatchNorm.

BatchNorm is folded in float64.
"""

import copy
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from frn.backbones.conv4 import Conv4, ConvBlock
from frn.backbones.resnet12 import ResidualBlock, ResNet12
from frn.features.extractor import FEATURES_VERSION
from frn.features.onnx_runtime import FEATURES_FORMAT
from frn.models.model import Model
from frn_export.graphs.builder import FLOAT, GraphBuilder
from frn_export.graphs.traced import write_traced

Array = NDArray[np.float64]


def features_graph(model: Model) -> onnx.ModelProto:
    """Build `features.onnx`: `images` (n, 3, S, S) in [0, 1] to `feature_map` (n, r, d), as `Model.feature_maps`.

    The metadata contains the head's learned parameters and the evaluation transform, so the file suffices to enroll and
    classify. Raises FrnError if the backbone has no builder here and cannot be traced.
    """
    writer = WRITERS.get(type(model.backbone))
    side = model.config.transform.size
    h, w = model.grid
    graph = GraphBuilder()
    mean, std = (np.asarray(v, dtype=np.float32).reshape(1, 3, 1, 1) for v in (model.config.mean, model.config.std))
    normalised = graph.node("Div", graph.node("Sub", "images", graph.constant(mean)), graph.constant(std))
    if writer is None:
        maps = write_traced(graph, normalised, model.backbone, side)
    else:
        maps = writer(graph, normalised, model.backbone)
    if (scale := model.map_scale(model.head)) != 1.0:
        maps = graph.node("Mul", maps, graph.constant(1 / scale))
    flat = graph.node("Reshape", maps, graph.constant(np.array([0, model.d, h * w], dtype=np.int64)))
    if model.adapter is None:
        graph.node("Transpose", flat, perm=[0, 2, 1], output="feature_map")
    else:
        maps = graph.node("Transpose", flat, perm=[0, 2, 1])
        graph.node("MatMul", maps, graph.constant(model.adapter.weight.mT.detach().numpy()), output="feature_map")
    # the layers of a head stay with the torch model
    scalars = {name: parameter.item() for name, parameter in model.head.named_parameters() if not parameter.dim()}
    return graph.model(
        inputs={"images": (FLOAT, ("n", 3, side, side))},
        outputs={"feature_map": (FLOAT, ("n", h * w, model.d))},
        metadata={
            "frn.config": json.dumps(asdict(model.config), sort_keys=True),
            "frn.grid": json.dumps([h, w]),
            "frn.head": json.dumps(scalars, sort_keys=True),
        },
        name="features",
        kind=FEATURES_FORMAT,
        version=FEATURES_VERSION,
    )


def _conv4(graph: GraphBuilder, x: str, backbone: Conv4) -> str:
    for block in backbone.blocks:
        assert isinstance(block, ConvBlock)
        x = _convolution(graph, x, block.conv, block.norm)
        if block.pool:
            x = _pool(graph, x)
        x = graph.node("Relu", x)
    return x


def _resnet12(graph: GraphBuilder, x: str, backbone: ResNet12) -> str:
    stem = backbone.stem
    for block in backbone.blocks:
        assert isinstance(block, ResidualBlock)
        main = _leaky(graph, _convolution(graph, x, *block.conv1, stem=stem))
        main = _leaky(graph, _convolution(graph, main, *block.conv2))
        main = _convolution(graph, main, *block.conv3)
        x = graph.node("Add", main, _convolution(graph, x, *block.shortcut, stem=stem))
        stem = 1
        if block.pool:
            x = _pool(graph, x)
        x = _leaky(graph, x)
    return x


def _convolution(graph: GraphBuilder, x: str, convolution: nn.Conv2d, norm: nn.BatchNorm2d, *, stem: int = 1) -> str:
    """Add a convolution; a stem of s x s patches becomes one on pixels, with s times the kernel size and stride s."""
    weight, bias = fold(convolution, norm)
    out, _, _, side = weight.shape
    padding = (side - 1) // 2 * stem
    attributes: dict[str, Any] = {}
    if stem != 1:
        attributes["strides"] = [stem, stem]
        patches = weight.reshape(out, -1, stem, stem, side, side)  # out, 3, s, s, side, side
        side *= stem
        weight = patches.transpose(0, 1, 4, 2, 5, 3).reshape(out, -1, side, side)
    inputs = (graph.constant(weight.astype(np.float32)), graph.constant(bias.astype(np.float32)))
    return graph.node("Conv", x, *inputs, kernel_shape=[side, side], pads=[padding] * 4, **attributes)


def fold(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[Array, Array]:
    """Fold BatchNorm in evaluation mode into the convolution before it; return weights and bias in float64."""
    fused = fuse_conv_bn_eval(copy.deepcopy(convolution).cpu().double(), copy.deepcopy(norm).cpu().double())
    assert fused.bias is not None
    return fused.weight.detach().numpy(), fused.bias.detach().numpy()


def _pool(graph: GraphBuilder, x: str) -> str:
    return graph.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])


def _leaky(graph: GraphBuilder, x: str) -> str:
    return graph.node("LeakyRelu", x, alpha=0.1)


WRITERS: dict[type[nn.Module], Callable[..., str]] = {Conv4: _conv4, ResNet12: _resnet12}
"""Hand-written builders that control operators and names; other backbones are traced."""
