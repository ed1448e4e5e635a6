"""Smaller extractors: weights stored in half precision, or convolutions computed in int8.

Only the weights and the intermediate values change. Names, shapes and metadata are the same, so the result can replace
any `features.onnx`. The accuracy lost with int8 depends on the model: `int8_accuracy` measures it.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from frn.errors import FrnError
from frn.images.transforms import Pixels

WEIGHTED = ("Conv", "Gemm", "MatMul")
"""Operators whose second input is a weight. Other operators stay in float: pooling in int8 is slower."""
BATCH = 16
PREPARED = ("onnx.quant.pre_process", "onnxruntime.quant")
"""Metadata that marks the graph as simplified (BatchNorm is folded); otherwise the quantiser prints advice."""


def half(features: bytes) -> bytes:
    """Store the weights of a `features.onnx` as float16, each with a Cast to float32 that onnxruntime folds.

    Computation stays in float32. Biases and normalisation constants are few and keep their precision.
    """
    model = onnx.load_model_from_string(features)
    graph = model.graph
    weights = {node.input[1] for node in graph.node if node.op_type in WEIGHTED}
    casts = []
    for tensor in graph.initializer:
        if tensor.name in weights and tensor.data_type == TensorProto.FLOAT:
            name, stored = tensor.name, f"{tensor.name}_half"
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), stored))
            casts.append(helper.make_node("Cast", [stored], [name], name=f"Cast_{name}", to=TensorProto.FLOAT))
    return _replace(model, [*casts, *graph.node], list(graph.initializer))


def int8(features: bytes, pixels: Pixels) -> bytes:
    """Compute convolutions in int8: weights symmetric per channel, activations between their observed extremes.

    Weights use seven of the eight bits: older processors add two products in 16 bits, where eight could overflow and
    change the results. Prepared images (n, S, S, 3) determine the range of the activations. Raises FrnError if there is
    no space for temporary files.
    """
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    model = onnx.load_model_from_string(features)
    prepared = onnx.load_model_from_string(features)
    prepared.metadata_props.add(key=PREPARED[0], value=PREPARED[1])
    inputs = _batches(pixels)
    reader = SimpleNamespace(get_next=lambda: next(inputs, None))
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "int8.onnx"
            quantize_static(
                prepared,
                path,
                reader,
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=list(WEIGHTED),
                per_channel=True,
                reduce_range=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                calibrate_method=CalibrationMethod.MinMax,
            )
            graph = onnx.load_model(path).graph
    except OSError as error:
        raise FrnError(
            f"{tempfile.gettempdir()}: temporary files for int8 cannot be written "
            f"({error.strerror}). Free some space, or set TMPDIR to another folder."
        ) from error
    return _replace(model, list(graph.node), list(graph.initializer))


def _batches(pixels: Pixels) -> Iterator[dict[str, NDArray[np.float32]]]:
    for start in range(0, len(pixels), BATCH):
        batch = pixels[start : start + BATCH].transpose(0, 3, 1, 2)
        yield {"images": batch.astype(np.float32) / np.float32(255)}


def _replace(model: onnx.ModelProto, nodes: list[onnx.NodeProto], tensors: list[onnx.TensorProto]) -> bytes:
    """Return the model with these nodes and tensors, without the quantiser's notes about itself and the machine."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for field, entries in ((result.graph.node, nodes), (result.graph.initializer, tensors)):
        del field[:]
        field.extend(entries)
    return result.SerializeToString(deterministic=True)
