"""Conversion of exported graphs for other runtimes; each is run there and compared with its ONNX file."""

import contextlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.inference.onnx_runtime import open_session
from frn.system.extras import install_command
from frn_export.difference import Difference

Format = Literal["onnx", "ort", "openvino"]
Values = Mapping[str, NDArray[Any]]
Converted = tuple[dict[str, bytes], Callable[[Values], Values]]
"""Files by their endings, and a function that runs them."""

TOLERANCE = 2e-5
"""Tolerance, as a fraction of an output's largest value: other kernels sum in a different order."""
ENDINGS = (".ort", ".xml", ".bin")
RESIZED_OTHERWISE = ("preprocess", "classifier")
"""Graphs not converted to OpenVINO, whose resizing differs from Pillow's by up to 21 grey levels."""


def converted(graphs: Mapping[str, bytes], kind: Format) -> tuple[dict[str, bytes], dict[str, Difference]]:
    """Convert ONNX graphs, given by name without an ending, to `ort` (for small builds) or `openvino` (an extra).

    Returns files by name, and the difference of each from its graph. Raises FrnError if a difference is too large, or
    the extra is missing.
    """
    if kind == "onnx":
        return {}, {}
    converter = _to_ort if kind == "ort" else _to_openvino
    files: dict[str, bytes] = {}
    differences: dict[str, Difference] = {}
    for name, data in graphs.items():
        if kind == "openvino" and name in RESIZED_OTHERWISE:
            continue
        with tempfile.TemporaryDirectory() as folder:
            written, run = converter(data, Path(folder) / name)
            differences[f"{name}_{kind}_difference"] = _compare(data, run, f"{name} as {kind}").require()
        files |= {f"{name}{ending}": content for ending, content in written.items()}
    return files, differences


def _to_ort(data: bytes, path: Path) -> Converted:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.save_model_format", "ORT")
    # optimise for any processor
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = f"{path}.ort"
    onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    content = Path(f"{path}.ort").read_bytes()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return {".ort": content}, lambda inputs: dict(zip(names, session.run(names, dict(inputs)), strict=True))


def _to_openvino(data: bytes, path: Path) -> Converted:
    try:
        import openvino
    except ImportError as error:
        raise FrnError(f"--as openvino needs OpenVINO: {install_command('openvino')}") from error
    source = path.with_suffix(".onnx")
    source.write_bytes(data)
    openvino.save_model(openvino.convert_model(str(source)), f"{path}.xml", compress_to_fp16=False)
    compiled = openvino.Core().compile_model(f"{path}.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(inputs: Values) -> Values:
        found = compiled(dict(inputs))
        return {output.any_name: np.asarray(found[output]) for output in compiled.outputs}

    return {ending: Path(f"{path}{ending}").read_bytes() for ending in (".xml", ".bin")}, run


def _compare(data: bytes, run: Callable[[Values], Values], what: str) -> Difference:
    """Compare both on the same random inputs; labels must be equal."""
    session = open_session(data, what, device="cpu")
    inputs = _sampled(session.get_inputs())
    names = [output.name for output in session.get_outputs()]
    expected = dict(zip(names, session.run(names, inputs), strict=True))
    with contextlib.redirect_stdout(None):
        found = run(inputs)
    largest = 0.0
    for name, value in expected.items():
        wanted, got = np.asarray(value), np.asarray(found[name])
        if wanted.dtype.kind != "f":
            largest = max(largest, float(np.any(wanted.astype(str) != got.astype(str))))
        else:
            largest = max(largest, float(np.abs(wanted - got).max() / max(np.abs(wanted).max(), 1e-30)))
    return Difference(what, largest, TOLERANCE, "the largest number")


def _sampled(inputs: Any) -> dict[str, NDArray[Any]]:
    """Return random values for every input: two images, or three classes of two examples."""
    random = np.random.default_rng(0)
    free = {"n": 2, "height": 150, "width": 200, "way": 3, "shot": 2, "q": 2, "r": 9, "d": 32}
    sampled: dict[str, NDArray[Any]] = {}
    for entry in inputs:
        shape = [free[size] if isinstance(size, str) else size for size in entry.shape]
        if entry.type == "tensor(uint8)":
            sampled[entry.name] = random.integers(0, 256, shape, dtype=np.uint8)
        elif entry.type == "tensor(int64)":
            sampled[entry.name] = np.array([2, 1, 2])
        else:
            sampled[entry.name] = random.random(shape, dtype=np.float32)
    return sampled
