"""Models that may run, and models that are refused before a session exists."""

import contextlib
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import onnx
import pytest
from frn_export.graphs.backbone import features_graph
from onnx import TensorProto, helper, numpy_helper

from frn.errors import FrnError
from frn.features import onnx_runtime
from frn.features.extractor import Extractor
from frn.features.onnx_runtime import (
    FEATURES_FORMAT,
    HEAD_OPERATORS,
    MAX_ELEMENTS,
    MAX_TOTAL,
    check_model,
    open_session,
    run_session,
)
from tests.models import small_model


@pytest.fixture(scope="module")
def graph() -> onnx.ModelProto:
    return features_graph(small_model())


def copy(model: onnx.ModelProto) -> onnx.ModelProto:
    other = onnx.ModelProto()
    other.CopyFrom(model)
    return other


def external_initializer(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")


def external_constant(model: onnx.ModelProto) -> None:
    tensor = numpy_helper.from_array(np.zeros(2, np.float32))
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    model.graph.node.append(helper.make_node("Constant", [], ["leak"], value=tensor))


def external_location_alone(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL


def external_data_alone(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].external_data.add(key="location", value="../secret")


def endless_loop(model: onnx.ModelProto) -> None:
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["d"])], "body", [], [])
    model.graph.node.append(helper.make_node("Loop", ["", ""], ["x"], body=body))


def hidden_graph(model: onnx.ModelProto) -> None:
    body = helper.make_graph([], "body", [], [])
    model.graph.node[0].attribute.append(helper.make_attribute("body", body))


def huge_allocation(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("ConstantOfShape", ["shape"], ["x"]))


def foreign_operator(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("Relu", ["v0"], ["x"], domain="com.evil"))


def foreign_domain(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


def no_opset(model: onnx.ModelProto) -> None:
    model.ClearField("opset_import")


def own_function(model: onnx.ModelProto) -> None:
    model.functions.append(helper.make_function("f", "Relu", ["a"], ["b"], [], [helper.make_opsetid("", 18)]))


def sparse_tensor(model: onnx.ModelProto) -> None:
    model.graph.sparse_initializer.add()


def other_format(model: onnx.ModelProto) -> None:
    del model.metadata_props[:]


def flood_of_metadata(model: onnx.ModelProto) -> None:
    model.metadata_props.add(key="x", value="y" * (5 << 20))


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (external_initializer, "stores tensors in other files"),
        (external_constant, "stores tensors in other files"),
        (external_location_alone, "stores tensors in other files"),
        (external_data_alone, "stores tensors in other files"),
        (endless_loop, r"uses the operator ai\.onnx\.Loop"),
        (hidden_graph, "has a subgraph in Sub"),
        (huge_allocation, r"uses the operator ai\.onnx\.ConstantOfShape"),
        (foreign_operator, r"uses the operator com\.evil\.Relu"),
        (foreign_domain, "uses com.microsoft; only standard operators"),
        (no_opset, "the shapes in its graph contradict each other"),
        (own_function, "uses its own functions"),
        (sparse_tensor, "contains sparse tensors"),
        (other_format, "not one that frn wrote"),
        (flood_of_metadata, "over 4 MiB of metadata"),
    ],
)
def test_a_hostile_file_is_refused_before_a_session_exists(
    graph: onnx.ModelProto, harm: Callable[[onnx.ModelProto], None], reason: str
) -> None:
    bad = copy(graph)
    harm(bad)
    with pytest.raises(FrnError, match=reason) as caught:
        check_model(bad.SerializeToString(), "bad.onnx")
    assert "\n" not in str(caught.value)


def rename_input(model: onnx.ModelProto) -> None:
    model.graph.input[0].name = model.graph.node[0].input[0] = "pictures"


def rename_output(model: onnx.ModelProto) -> None:
    model.graph.output[0].name = model.graph.node[-1].output[0] = "maps"


def flatten_output(model: onnx.ModelProto) -> None:
    model.graph.node[-1].output[0] = "whole"
    model.graph.node.append(helper.make_node("Flatten", ["whole"], ["feature_map"]))
    del model.graph.output[0].type.tensor_type.shape.dim[2]
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 16 * 64


@pytest.mark.parametrize("harm", [rename_input, rename_output, flatten_output])
def test_model_with_unexpected_inputs_or_outputs_is_refused(
    graph: onnx.ModelProto, harm: Callable[[onnx.ModelProto], None]
) -> None:
    other = copy(graph)
    harm(other)
    with pytest.raises(
        FrnError, match=r"m\.onnx: its inputs and outputs do not match an extractor for 32-pixel images"
    ):
        Extractor(other.SerializeToString(), "m.onnx", trusted=True)


def test_a_non_onnx_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(b"\xff\xfenot a model")
    with pytest.raises(FrnError, match="is not an ONNX file"):
        Extractor.open(path)
    with pytest.raises(FrnError, match="cannot be read"):
        Extractor.open(tmp_path / "none.onnx")
    monkeypatch.setattr("frn.features.extractor.MAX_MODEL_BYTES", 4)
    with pytest.raises(FrnError, match="the limit is"):
        Extractor.open(path)


def change(graph: onnx.ModelProto, key: str, value: str) -> bytes:
    bad = copy(graph)
    for entry in bad.metadata_props:
        if entry.key == key:
            entry.value = value
    return bad.SerializeToString()


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("frn.version", "7", "has format version 7; this program reads 1"),
        ("frn.version", "two\nlines", "has format version two lines; this"),
        ("frn.config", "{", "lacks a readable frn.config"),
        ("frn.config", "{}", "lacks a readable frn.config .Object missing required field `backbone`"),
        ("frn.grid", "[9, 9]", "its inputs and outputs do not match an extractor"),
        ("frn.head", '{"alpha": 1}', "its metadata is damaged"),
    ],
)
def test_metadata_must_match_the_graph(graph: onnx.ModelProto, key: str, value: str, reason: str) -> None:
    with pytest.raises(FrnError, match=reason) as caught:
        Extractor(change(graph, key, value), "m.onnx")
    assert len(str(caught.value).splitlines()) == 1


def test_call_is_stopped_at_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even an allowed loop cannot run forever."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["s", "s"], ["t"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, [1]),
        ],
    )
    true = numpy_helper.from_array(np.array(True), "true")
    loop = helper.make_node("Loop", ["", "true", "x"], ["y"], body=body)
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([loop], "endless", value[:1], value[1:], [true])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    session = open_session(model.SerializeToString(), "endless", device="cpu", threads=1)
    monkeypatch.setattr("frn.features.onnx_runtime.TIME_LIMIT", 0.6)
    began = time.monotonic()
    with pytest.raises(FrnError, match="took more than 1 s"):
        run_session(session, ["y"], {"x": np.ones(1, np.float32)})
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("provider", "started", "counted", "devices", "answers"),
    [
        (True, 0, 0, 1, True),
        (True, 0, 0, 0, False),
        (True, 0, 2, 1, False),
        (True, 3, 0, 1, False),
        (False, 0, 0, 1, False),
    ],
)
def test_cuda_is_available_if_there_are_a_provider_a_driver_and_a_device(
    monkeypatch: pytest.MonkeyPatch, provider: bool, started: int, counted: int, devices: int, answers: bool
) -> None:
    class Driver:
        def __init__(self, name: str) -> None:
            self.cuInit = lambda flags: started if flags == 0 else 9

        def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802  # CUDA's name
            count._obj.value = devices
            return counted

    providers = ["CUDAExecutionProvider"] * provider + ["CPUExecutionProvider"]
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: providers)
    monkeypatch.setattr("ctypes.CDLL", Driver)
    assert onnx_runtime.cuda_answers() is answers


def test_requesting_cuda_without_a_device_fails(graph: onnx.ModelProto) -> None:
    if onnx_runtime.cuda_answers():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(FrnError, match="no CUDA device is available"):
        Extractor(graph.SerializeToString(), "m.onnx", device="cuda")


@pytest.mark.parametrize("started", [True, False])
def test_cuda_that_does_not_start_is_an_error_only_if_requested(
    graph: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, started: bool
) -> None:
    opened = MagicMock()
    opened.return_value.get_providers.return_value = ["CUDAExecutionProvider"] * started + ["CPUExecutionProvider"]
    monkeypatch.setattr("onnxruntime.InferenceSession", opened)
    monkeypatch.setattr("frn.features.onnx_runtime.cuda_answers", lambda: True)
    open_session(graph.SerializeToString(), "x.onnx", device="auto")
    with contextlib.nullcontext() if started else pytest.raises(FrnError, match="CUDA provider did not start"):
        open_session(graph.SerializeToString(), "x.onnx", device="cuda")


def test_allowed_operators_have_no_subgraphs_and_are_deterministic() -> None:
    for name in sorted(HEAD_OPERATORS):
        schema = onnx.defs.get_schema(name)
        kinds = {attribute.type for attribute in schema.attributes.values()}
        assert not kinds & {onnx.defs.OpSchema.AttrType.GRAPH, onnx.defs.OpSchema.AttrType.GRAPHS}, name
        assert not name.startswith(("Random", "Multinomial", "Bernoulli")), name


def test_layers_over_the_total_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value has the maximum size; one more value exceeds the total."""

    def chain(layers: int, side: int) -> bytes:
        names = ["images", *(f"x{number}" for number in range(layers)), "feature_map"]
        nodes = [helper.make_node("Relu", [one], [other]) for one, other in itertools.pairwise(names)]
        shape = [1, 1, 1, side]
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("images", "feature_map")]
        model = helper.make_model(helper.make_graph(nodes, "x", ends[:1], ends[1:]))
        helper.set_model_props(model, {"frn.format": FEATURES_FORMAT})
        return bytes(model.SerializeToString())

    at_once, in_all = MAX_ELEMENTS, MAX_TOTAL // MAX_ELEMENTS
    check_model(chain(in_all, at_once), "x.onnx")
    with pytest.raises(FrnError, match=r"x\.onnx: computes 33,554,433 numbers .* 33,554,432 at once and 1,073,741,824"):
        check_model(chain(1, at_once + 1), "x.onnx")
    with pytest.raises(FrnError, match="computes 33,554,432 numbers"):
        check_model(chain(in_all + 1, at_once), "x.onnx")


def test_negative_sizes_are_refused_and_unknown_ones_are_not(graph: onnx.ModelProto) -> None:
    for size in (0, 1, -1):
        other = copy(graph)
        other.graph.value_info.append(helper.make_tensor_value_info("odd", TensorProto.FLOAT, [size]))
        expected = pytest.raises(FrnError, match=r"^m\.onnx: computes 'odd' with a negative size$")
        with expected if size < 0 else contextlib.nullcontext():
            check_model(other.SerializeToString(), "m.onnx")


@pytest.mark.parametrize("rank", [None, "3"])
def test_each_process_of_torchrun_uses_its_own_gpu(
    graph: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, rank: str | None
) -> None:
    opened = MagicMock()
    monkeypatch.setattr("onnxruntime.InferenceSession", opened)
    monkeypatch.setattr("frn.features.onnx_runtime.cuda_answers", lambda: True)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank:
        monkeypatch.setenv("LOCAL_RANK", rank)
    open_session(graph.SerializeToString(), "x.onnx")
    cuda, cpu = opened.call_args.kwargs["providers"]
    assert (cuda, cpu) == (("CUDAExecutionProvider", {"device_id": rank or "0"}), ("CPUExecutionProvider", {}))
    open_session(graph.SerializeToString(), "x.onnx", device="cpu")
    assert opened.call_args.kwargs["providers"] == [cpu]
