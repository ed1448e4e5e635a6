"""Check and run ONNX files with onnxruntime: quietly, and only on a device that exists.

An ONNX file from an unknown source may refer to other files, request unbounded loops or memory, or contain code. Its
graph is therefore parsed before it runs and must consist of plain tensors and known operators.
"""

import ctypes
import math
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from numpy.typing import NDArray

from frn.errors import FrnError, shorten

if TYPE_CHECKING:
    import onnx
    import onnxruntime

Device = Literal["auto", "cpu", "cuda"]
Kind = TypeVar("Kind")

FEATURES_FORMAT = "frn-features"
"""Value of the metadata entry `frn.format` of an extractor."""
TRACED_HEAD = "frn-traced-head"
"""The same for a head other than FRN's."""
MAX_BYTES = 1 << 30
MAX_METADATA = 4 << 20
MAX_ELEMENTS = 1 << 25
"""Maximum number of values that a layer may compute for one image: 128 MiB in float32.

At 84 pixels, ResNet-12 computes half a million.
"""
MAX_TOTAL = 1 << 30
"""Maximum number of values that all layers together may compute for one image."""
TIME_LIMIT = 120.0
"""Seconds after which a call is stopped."""

_OPERATORS = """
Add AveragePool BatchNormalization Cast Clip Concat Constant Conv DequantizeLinear Div Erf Exp Expand Flatten
Gather Gelu Gemm GlobalAveragePool GlobalMaxPool HardSigmoid HardSwish Identity LayerNormalization LeakyRelu
Log MatMul Max MaxPool Min Mul Neg PRelu Pad Pow QuantizeLinear Reciprocal ReduceMean ReduceSum Relu Reshape
Resize Round Shape Sigmoid Slice Softmax Split Sqrt Squeeze Sub Tanh Transpose Unsqueeze Where
"""
OPERATORS = frozenset(_OPERATORS.split())
"""Operators that an extractor may use: no loops, branches, random numbers or allocation of data-dependent size."""
_OF_HEADS = """
Abs ConstantOfShape Cos Equal EyeLike GatherND IsNaN LessOrEqual Mod NonZero Not OneHot Range ReduceL2 ReduceMax
ReduceMin Sign Sin Tile
"""
HEAD_OPERATORS = OPERATORS | frozenset(_OF_HEADS.split())
"""Additional operators for a head. Its sizes follow those of the episode; its process has limited memory."""


def check_model(data: bytes, where: str, formats: Iterable[str]) -> dict[str, str]:
    """Check that an ONNX file, given by its bytes, can do nothing but compute; return its metadata.

    Raises FrnError, mentioning `where`, if it could do anything else or its `frn.format` is not one of `formats`.
    """
    import onnx
    from google.protobuf.message import DecodeError

    if len(data) > MAX_BYTES:
        raise FrnError(f"{where}: is {len(data) >> 20} MiB; the limit is {MAX_BYTES >> 20} MiB")
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as error:
        raise FrnError(f"{where}: is not an ONNX file") from error
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    if metadata.get("frn.format") not in set(formats):
        raise FrnError(
            f"{where}: is an ONNX file, but not one that frn wrote (frn.format is {metadata.get('frn.format')!r}, "
            f"expected {' or '.join(sorted(formats))})"
        )
    if sum(map(len, metadata.values())) > MAX_METADATA:
        raise FrnError(f"{where}: has over {MAX_METADATA >> 20} MiB of metadata")
    foreign = [opset.domain for opset in model.opset_import if opset.domain not in ("", "ai.onnx")]
    if foreign or model.functions or model.training_info:
        used = shorten(foreign[0]) if foreign else "its own functions"
        raise FrnError(f"{where}: uses {used}; only standard operators are allowed")
    _check_graph(model.graph, where, HEAD_OPERATORS if metadata["frn.format"] == TRACED_HEAD else OPERATORS)
    _check_sizes(model, where)
    return metadata


def _check_graph(graph: "onnx.GraphProto", where: str, operators: frozenset[str]) -> None:
    import onnx

    if graph.sparse_initializer:
        raise FrnError(f"{where}: contains sparse tensors, which frn does not use")
    tensors = list(graph.initializer)
    for node in graph.node:
        if node.op_type not in operators or node.domain not in ("", "ai.onnx"):
            operator = shorten(f"{node.domain or 'ai.onnx'}.{node.op_type}")
            raise FrnError(f"{where}: uses the operator {operator}, which is not allowed")
        for attribute in node.attribute:
            if attribute.HasField("g") or attribute.graphs:
                raise FrnError(f"{where}: has a subgraph in {node.op_type}, which is not allowed")
            tensors += [attribute.t, *attribute.tensors]
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data for tensor in tensors):
        raise FrnError(f"{where}: stores tensors in other files, which frn never reads")


def _check_sizes(model: "onnx.ModelProto", where: str) -> None:
    """Raise FrnError if any value of a graph, for one image, is far larger than in any real network."""
    import onnx

    for value in model.graph.input:
        if value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[0].dim_value = 1
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")  # the file may fix the number of images
    try:
        # without data propagation, which could compute values of any size
        inferred = onnx.shape_inference.infer_shapes(model)
    except (RuntimeError, ValueError, onnx.shape_inference.InferenceError) as error:
        raise FrnError(f"{where}: the shapes in its graph contradict each other ({shorten(error)})") from error
    total = 0
    for value in inferred.graph.value_info:
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if any(dim < 0 for dim in dims):
            raise FrnError(f"{where}: computes {value.name!r} with a negative size")
        total += math.prod(dims)  # 0 if a dimension is unknown
        if math.prod(dims) > MAX_ELEMENTS or total > MAX_TOTAL:
            raise FrnError(
                f"{where}: computes {math.prod(dims):,} numbers at {value.name!r} for one image; the limits are "
                f"{MAX_ELEMENTS:,} at once and {MAX_TOTAL:,} in all"
            )


def open_session(
    data: bytes, where: str, *, device: Device = "auto", threads: int = 0, fold: bool = True
) -> "onnxruntime.InferenceSession":
    """Create a session from the bytes of a checked or shipped model, silent on stdout and stderr.

    Without `fold`, constants are computed by runs, which have a time limit, and not while the session is created.
    Raises FrnError if the model cannot run, or if `device` is "cuda" and CUDA is not available.
    """
    import onnxruntime

    if device == "cuda" and not cuda_answers():
        raise FrnError("--device cuda: no CUDA device is available. Use --device cpu or auto.")
    wants_cuda = device != "cpu" and cuda_answers()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    own = {"device_id": os.environ.get("LOCAL_RANK", "0")}  # one GPU per torchrun process
    providers = [("CUDAExecutionProvider", own)] * wants_cuda + [("CPUExecutionProvider", {})]
    onnxruntime.set_default_logger_severity(4)  # otherwise a fallback prints pages of warnings
    try:
        unwanted = None if fold else ["ConstantFolding"]
        session = onnxruntime.InferenceSession(data, options, providers=providers, disabled_optimizers=unwanted)
    except _errors() as e:
        raise FrnError(f"{where}: onnxruntime cannot run it ({shorten(e)})") from e
    finally:
        onnxruntime.set_default_logger_severity(2)
    if device == "cuda" and "CUDAExecutionProvider" not in session.get_providers():
        raise FrnError("--device cuda: onnxruntime's CUDA provider did not start (cuDNN or CUDA libraries missing?)")
    return session


def cuda_answers() -> bool:
    """Return whether onnxruntime has a CUDA provider and the driver a device; fast, without output."""
    import onnxruntime

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return False
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def run_session(
    session: "onnxruntime.InferenceSession", outputs: Sequence[str], inputs: Mapping[str, NDArray[Any]]
) -> list[NDArray[Any]]:
    """Run a session. Raises FrnError if the run fails or takes longer than `TIME_LIMIT` seconds."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    timer = threading.Timer(TIME_LIMIT, setattr, (options, "terminate", True))
    timer.start()
    try:
        results: list[NDArray[Any]] = session.run(list(outputs), dict(inputs), options)
    except _errors() as error:
        if options.terminate:
            raise FrnError(f"the model was stopped: it took more than {TIME_LIMIT:.0f} s") from error
        raise FrnError(f"the model failed ({shorten(error)})") from error
    finally:
        timer.cancel()
    return results


def _errors() -> tuple[type[Exception], ...]:
    """Return all exceptions that onnxruntime raises; they have no common base class."""
    from onnxruntime.capi import onnxruntime_pybind11_state as module

    own = (kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Exception))
    return (RuntimeError, ValueError, *own)


def parse_json(metadata: Mapping[str, str], key: str, where: str, kind: type[Kind]) -> Kind:
    """Return a metadata entry that contains JSON. Raises FrnError if it is missing, damaged, or of the wrong type."""
    try:
        return msgspec.json.decode(metadata.get(key, ""), type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FrnError(f"{where}: its metadata lacks a readable {key} ({shorten(error)})") from error
