"""Another library's network as ONNX: torch's tracer writes the nodes; only those that depend on pixels are kept.

The tracer is the TorchScript tracer that comes with torch, because the newer exporter needs another package. The tracer
writes source lines, and chains of nodes that compute shapes with operators that extractors may not use
(`inference.onnx_runtime`). Values that depend only on the number of images n are therefore evaluated for two values of
n: those that stay the same become constants, and those that grow with n are computed from the input's shape. Names and
source lines are dropped.
"""

import io
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from torch import Tensor, nn

from frn.errors import FrnError
from frn_export.graphs.builder import OPSET, GraphBuilder, graph_values


def write_traced(graph: GraphBuilder, images: str, backbone: nn.Module, size: int) -> str:
    """Add a network to a graph, from normalised images (n, 3, size, size) to maps (n, d, h, w), by value names.

    Raises FrnError if the network cannot be traced, or its shapes do not depend on the number of images as expected.
    """
    example = {"images": torch.zeros(2, 3, size, size, dtype=torch.float32)}
    traced = trace(backbone, example, "maps", {"images": {0: "n"}}, "this backbone")
    return _Copy(graph, images, traced).value("maps")


def trace(
    network: nn.Module, inputs: Mapping[str, Tensor], output: str, free: Mapping[str, Mapping[int, str]], what: str
) -> onnx.GraphProto:
    """Trace a network on inputs by name, some of whose axes are free.

    Raises FrnError if it cannot be traced; `what` names it in the message.
    """
    file = io.BytesIO()
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it is one fused operator, which ONNX lacks
    torch._C._jit_set_onnx_log_output_stream("stderr")  # unsupported nodes are otherwise printed to stdout
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations, and values fixed by tracing (parity checks them)
            torch.onnx.export(
                network,
                tuple(inputs.values()),
                file,  # type: ignore[arg-type]  # the tracer takes a buffer too
                dynamo=False,
                opset_version=OPSET,
                input_names=list(inputs),
                output_names=[output],
                dynamic_axes=dict(free),
            )
    except (torch.onnx.errors.OnnxExporterError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise FrnError(f"{what} cannot be exported as ONNX ({reason})") from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return onnx.load_model_from_string(file.getvalue()).graph


class _Copy:
    """Copies the nodes that depend on pixels, backwards from the output, each value once."""

    def __init__(self, graph: GraphBuilder, images: str, traced: onnx.GraphProto) -> None:
        self.graph = graph
        self.images = images
        self.makers = {output: node for node in traced.node for output in node.output}
        self.weights = {tensor.name: tensor for tensor in traced.initializer}
        self.named: dict[str, str] = {"images": images}
        self.ready: dict[bytes, str] = {}
        of_pixels = _depend_on_pixels(traced)
        free = [name for node in traced.node for name in node.output if name not in of_pixels]
        side = [dimension.dim_value for dimension in traced.input[0].type.tensor_type.shape.dim[1:]]
        self.two, self.three = (
            graph_values(traced.node, traced.initializer, {"images": np.zeros((n, *side), np.float32)}, free)
            for n in (2, 3)
        )
        self.batch: str | None = None

    def value(self, name: str, reshapes: bool = False) -> str:
        """Return the new name of a value of the traced graph."""
        if not name:
            return ""
        if name in self.weights:
            return self._constant(numpy_helper.to_array(self.weights[name]))
        if name in self.two:
            two, three = self.two[name], self.three[name]
            if two.shape == three.shape and np.array_equal(two, three):
                return self._constant(two)
            if two.dtype == np.int64 and two.shape == three.shape and two.ndim == 1:
                return self._sizes(two, three, reshapes)
        if name not in self.named:
            self._node(self.makers[name])
        return self.named[name]

    def _node(self, node: onnx.NodeProto) -> None:
        node = self._padding_itself(node)
        reshape = node.op_type == "Reshape"
        inputs = [self.value(name, reshape and place == 1) for place, name in enumerate(node.input)]
        at = len(self.graph.nodes)
        outputs = [f"{self.graph.prefix}v{at}" + (f"_{place}" if place else "") for place in range(len(node.output))]
        copied = helper.make_node(node.op_type, inputs, outputs, name=f"{self.graph.prefix}{node.op_type}_{at}")
        copied.attribute.extend(node.attribute)
        self.graph.nodes.append(copied)
        self.named.update(zip(node.output, outputs, strict=True))

    def _padding_itself(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Let a convolution pad its input with zeros itself, because some runtimes do not know the operator Pad."""
        pad = self.makers.get(node.input[0]) if node.op_type == "Conv" else None
        if pad is None or pad.op_type != "Pad" or [a.s for a in pad.attribute] != [b"constant"]:  # its mode
            return node
        added, *others = [self.two.get(name) for name in pad.input[1:] if name]
        if added is None or added.size != 8 or added.min() < 0 or (sides := added.reshape(2, 4))[:, :2].any():
            return node
        if any(other is None or other.any() for other in others):  # not zeros
            return node
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        attributes["pads"] = (sides[:, 2:].ravel() + attributes["pads"]).tolist()
        return helper.make_node("Conv", [pad.input[0], *node.input[1:]], node.output, **attributes)

    def _sizes(self, two: NDArray[Any], three: NDArray[Any], reshapes: bool) -> str:
        """Add a shape with multiples of n: -1 if a Reshape can infer it, else computed from the images' shape."""
        growth = three - two
        if not np.array_equal(two[growth != 0], 2 * growth[growth != 0]):
            raise FrnError(
                "this backbone cannot be exported as ONNX (a dimension neither is fixed nor grows with the "
                "number of images)"
            )
        if reshapes and np.count_nonzero(growth) == 1 and -1 not in two:
            return self._constant(np.where(growth != 0, -1, two))
        if self.batch is None:
            self.batch = self.graph.node("Shape", self.images, start=0, end=1)
        parts = [
            self.graph.node("Mul", self.batch, self.graph.ints(int(times))) if times else self.graph.ints(int(fixed))
            for fixed, times in zip(two, growth, strict=True)
        ]
        return self.graph.node("Concat", *parts, axis=0)

    def _constant(self, array: NDArray[Any]) -> str:
        """Add each constant once, even if several nodes use it."""
        array = np.asarray(array)
        key = str((array.dtype, array.shape)).encode() + array.tobytes()
        if key not in self.ready:
            self.ready[key] = self.graph.constant(array)
        return self.ready[key]


def _depend_on_pixels(traced: onnx.GraphProto) -> set[str]:
    """Return names of values that depend on the images' contents, not only on their number."""
    of_pixels = {"images"}
    for node in traced.node:
        if node.op_type != "Shape" and not of_pixels.isdisjoint(node.input):
            of_pixels.update(node.output)
    return of_pixels
