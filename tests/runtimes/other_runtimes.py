"""`python other_runtimes.py RUNTIME GRAPH.onnx CASE.npz`: print another runtime's difference from onnxruntime.

The difference is printed as JSON. The case holds the inputs of the graph and, with a dot before their names, the
outputs of onnxruntime.
"""

import importlib.metadata
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]


def outputs_of(graph: Path) -> list[str]:
    """Names of the outputs of a graph, in order."""
    import onnx

    return [value.name for value in onnx.load(graph).graph.output]


def reference(graph: Path, inputs: Arrays, names: list[str]) -> Arrays:
    """Run the onnx reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    return dict(zip(names, ReferenceEvaluator(str(graph)).run(names, inputs), strict=True))


def openvino(graph: Path, inputs: Arrays, names: list[str]) -> Arrays:
    """Run OpenVINO on the processor, in float32."""
    import openvino

    compiled = openvino.Core().compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled(inputs)
    return {name: found[name] for name in names}


def tract(graph: Path, inputs: Arrays, names: list[str]) -> Arrays:
    """Run tract through its Python bindings, for the given input sizes."""
    import tract

    model = tract.onnx().load(str(graph))
    kinds = {"float32": "f32", "int64": "i64", "uint8": "u8"}
    for place, array in enumerate(inputs.values()):
        model.set_input_fact(place, ",".join([*map(str, array.shape), kinds[str(array.dtype)]]))
    found = model.into_model().into_runnable().run(list(inputs.values()))
    order = outputs_of(graph)
    return {name: found[order.index(name)].to_numpy() for name in names}


def onnx2torch(graph: Path, inputs: Arrays, names: list[str]) -> Arrays:
    """Convert the graph to a torch module."""
    import torch
    from onnx2torch import convert

    order = outputs_of(graph)
    found = convert(graph)(*(torch.from_numpy(array) for array in inputs.values()))
    outputs = found if isinstance(found, list | tuple) else [found]
    return {name: outputs[order.index(name)].detach().numpy() for name in names}


def ncnn(graph: Path, inputs: Arrays, names: list[str]) -> Arrays:
    """Convert the graph with pnnx for one image, and run it in ncnn."""
    import ncnn
    import pnnx

    (images,), (name,) = inputs.values(), names
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "graph.onnx"
        copied.write_bytes(graph.read_bytes())
        shape = ",".join(map(str, (1, *images.shape[1:])))
        program = Path(pnnx.EXEC_PATH)
        subprocess.run(
            [program, copied, f"inputshape=[{shape}]", "fp16=0"], cwd=folder, check=True, capture_output=True
        )
        net = ncnn.Net()
        net.opt.use_bf16_storage = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
        net.load_param(str(copied.with_suffix(".ncnn.param")))
        net.load_model(str(copied.with_suffix(".ncnn.bin")))
        found = []
        for image in images:
            extractor = net.create_extractor()
            extractor.input("in0", ncnn.Mat(np.ascontiguousarray(image)))
            found.append(np.array(extractor.extract("out0")[1]))
    return {name: np.stack(found)}


def onnxruntime(graph: Path, inputs: Arrays, names: list[str]) -> Arrays:
    """Run another version of onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, inputs), strict=True))


RUNTIMES = {
    "oldest": ("onnxruntime", onnxruntime),
    "newest": ("onnxruntime", onnxruntime),
    "reference": ("onnx", reference),
    "openvino": ("openvino", openvino),
    "tract": ("tract", tract),
    "onnx2torch": ("onnx2torch", onnx2torch),
    "ncnn": ("ncnn", ncnn),
}


def main() -> None:
    package, run = RUNTIMES[sys.argv[1]]
    case = dict(np.load(sys.argv[3]))
    inputs = {name: array for name, array in case.items() if not name.startswith(".")}
    expected = {name[1:]: array for name, array in case.items() if name.startswith(".")}
    told: dict[str, Any] = {"version": importlib.metadata.version(package)}
    try:
        found = run(Path(sys.argv[2]), inputs, list(expected))
        told["difference"] = max(float(np.abs(np.asarray(found[name]) - expected[name]).max()) for name in expected)
    except Exception as error:  # any error from a runtime goes into its table row
        told["error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(told))


if __name__ == "__main__":
    main()
