"""Extractors with weights in half precision."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def half(features: bytes) -> bytes:
    """Store the weights of a `features.onnx` as float16, each with a Cast to float32 that onnxruntime folds.

    Computation stays in float32. Biases and normalisation constants are few and keep their precision. Names, shapes and
    metadata are the same, so the result can replace any `features.onnx`.
    """
    model = onnx.load_model_from_string(features)
    weights = {node.input[1] for node in model.graph.node if node.op_type in ("Conv", "Gemm", "MatMul")}
    casts = []
    for tensor in model.graph.initializer:
        if tensor.name in weights and tensor.data_type == TensorProto.FLOAT and len(tensor.dims) >= 2:
            name, stored = tensor.name, f"{tensor.name}_half"
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), stored))
            casts.append(helper.make_node("Cast", [stored], [name], name=f"Cast_{name}", to=TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)
