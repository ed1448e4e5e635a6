"""Builder of ONNX graphs: a thin layer over `onnx.helper` that names values in order.

Files contain no machine-specific paths, timestamps or source lines, so the same model gives the same bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from frn._version import __version__
from frn.features.onnx_runtime import open_session, run_session

OPSET = 18  # newest opset whose Resize, Pad, MaxPool, If and Loop all have CUDA kernels in onnxruntime
IR_VERSION = 8  # IR version of the opset: older runtimes reject newer ones, which would add nothing

Shape = Sequence[int | str]


class GraphBuilder:
    """Collector of nodes and constants, which returns the names of the graph's values.

    A branch or loop body has its own builder, with a prefix that keeps names unique.
    """

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: NDArray[np.generic] | float) -> str:
        """Add an initialiser; a Python float becomes a float32 scalar."""
        name = f"{self.prefix}c{len(self.constants)}"
        array = np.asarray(value, dtype=np.float32 if isinstance(value, float) else None)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def include(self, graph: onnx.GraphProto) -> None:
        self.constants.extend(graph.initializer)
        self.nodes.extend(graph.node)

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        output = output or f"{self.prefix}v{len(self.nodes)}"
        name = f"{self.prefix}{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=name, **attributes))
        return output

    def outputs(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        name = f"{self.prefix}{kind}_{len(self.nodes)}"
        names = [f"{self.prefix}v{len(self.nodes)}_{place}" for place in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=name, **attributes))
        return names

    def split(self, value: str, parts: int) -> list[str]:
        return self.outputs("Split", parts, value, axis=0, num_outputs=parts)

    def ints(self, *values: int) -> str:
        """Add a one-dimensional int64 constant for axes, a shape or an index."""
        return self.constant(np.array(values, dtype=np.int64))

    def doubles(self, value: float) -> str:
        return self.constant(np.array(value, dtype=np.float64))

    def body(
        self, name: str, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto]
    ) -> onnx.GraphProto:
        """Close this builder as a branch or a loop body; it may use every value of the enclosing graph."""
        return helper.make_graph(self.nodes, name, list(inputs), list(outputs), self.constants)

    def model(
        self,
        inputs: Mapping[str, tuple[int, Shape]],
        outputs: Mapping[str, tuple[int, Shape]],
        metadata: Mapping[str, str],
        name: str,
        *,
        kind: str,
        version: str = "1",
    ) -> onnx.ModelProto:
        """Close the graph, with the element type and shape of each input and output; strings are free dimensions.

        The metadata of the model also states the `kind` of file, its version, and the version of frn that wrote it.

        Raises: onnx.checker.ValidationError: if the graph is not valid, which would be a bug.
        """
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(key, kind, list(shape)) for key, (kind, shape) in inputs.items()],
            [helper.make_tensor_value_info(key, kind, list(shape)) for key, (kind, shape) in outputs.items()],
            self.constants,
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="frn"
        )
        whose = {"frn.format": kind, "frn.version": version, "frn.library": __version__}
        helper.set_model_props(model, dict(sorted({**metadata, **whose}.items())))
        onnx.checker.check_model(model, full_check=True)
        return model


def graph_values(
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto],
    inputs: Mapping[str, NDArray[np.float32]],
    names: Sequence[str],
) -> dict[str, NDArray[Any]]:
    """Return values of a graph by name."""
    if not names:
        return {}
    takes = [helper.make_tensor_value_info(name, FLOAT, array.shape) for name, array in inputs.items()]
    gives = [onnx.ValueInfoProto(name=name) for name in names]
    graph = helper.make_graph(nodes, "values", takes, gives, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    session = open_session(model.SerializeToString(), "an intermediate graph", device="cpu")
    return dict(zip(names, run_session(session, names, inputs), strict=True))


def value(name: str, kind: int, shape: Shape | None = None) -> onnx.ValueInfoProto:
    """Declare a value of a body; without a shape, any is allowed."""
    return helper.make_tensor_value_info(name, kind, None if shape is None else list(shape))


BOOL = TensorProto.BOOL
DOUBLE = TensorProto.DOUBLE
FLOAT = TensorProto.FLOAT
INT64 = TensorProto.INT64
STRING = TensorProto.STRING
UINT8 = TensorProto.UINT8
