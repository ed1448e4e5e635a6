"""Feature extractors, also those of untrusted files."""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from frn_export.graphs.backbone import features_graph
from onnx import helper, numpy_helper
from PIL import Image

from frn.errors import FrnError
from frn.estimator.loading import load_extractor
from frn.features import onnx_runtime
from frn.features.extractor import Embedded, Extractor
from frn.features.onnx_runtime import Device, check_model
from frn.models.zoo import DEFAULT_MODEL, shipped_extractors
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import UNTRAINED, Prior
from frn.system.hardware import own_cores
from frn.system.processes.messages import Message
from tests.models import small_model


@pytest.fixture(scope="module")
def graph() -> onnx.ModelProto:
    return features_graph(small_model())


def changed(graph: onnx.ModelProto, **values: str) -> bytes:
    """Return a file with other metadata; names are without `frn.`."""
    other = onnx.ModelProto()
    other.CopyFrom(graph)
    known = {entry.key: entry.value for entry in graph.metadata_props}
    helper.set_model_props(other, known | {f"frn.{name}": value for name, value in values.items()})
    return bytes(other.SerializeToString())


@pytest.mark.parametrize(
    ("maps", "reason"),
    [
        (np.full((2, 16, 64), 1e12), ""),
        (np.full((2, 16, 64), -1e12), ""),
        (np.full((2, 16, 64), 1.01e12), r"is not finite, or exceeds 1e\+12: it is damaged"),
        (np.full((2, 16, 64), np.nan), "is not finite"),
        (np.zeros((2, 16, 63)), r"^m\.onnx: returned maps of shape \(2, 16, 63\), not \(2, 16, 64\)$"),
        (np.zeros((1, 16, 64)), r"returned maps of shape \(1, 16, 64\), not \(2, 16, 64\)"),
    ],
)
def test_maps_have_the_expected_shape_and_values_up_to_1e12(
    graph: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, maps: np.typing.NDArray[np.float64], reason: str
) -> None:
    extractor = Extractor(graph.SerializeToString(), "m.onnx", trusted=True, threads=1)
    asked: list[dict[str, np.typing.NDArray[np.float32]]] = []

    def run(inputs: dict[str, np.typing.NDArray[np.float32]]) -> np.typing.NDArray[np.float64]:
        asked.append(inputs)
        return maps

    monkeypatch.setattr(extractor.session, "run", run)
    with pytest.raises(FrnError, match=reason) if reason else contextlib.nullcontext():
        assert extractor.feature_maps(np.full((2, 32, 32, 3), 51, np.uint8)) is maps
    assert asked[0]["images"].shape == (2, 3, 32, 32)
    np.testing.assert_allclose(asked[0]["images"], 51 / 255)


def test_extractors_use_all_cores_and_check_the_file_by_default(graph: onnx.ModelProto, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(graph.SerializeToString())
    assert Extractor.open(tmp_path / "m.onnx", trusted=True).threads == own_cores()
    bad = onnx.load(tmp_path / "m.onnx")
    bad.graph.node.append(helper.make_node("ConstantOfShape", ["shape"], ["x"]))
    for path in (tmp_path / "m.onnx", tmp_path / "bad.onnx"):
        path.write_bytes(bad.SerializeToString())
        with pytest.raises(FrnError, match="uses the operator"):
            Extractor.open(path)
    with pytest.raises(FrnError, match="uses the operator"):
        Extractor(bad.SerializeToString(), "m.onnx")


def test_prior_and_augmentation_follow_the_metadata(graph: onnx.ModelProto) -> None:
    def opened(**values: str) -> Extractor:
        return Extractor(changed(graph, **values), "m.onnx", trusted=True, threads=1)

    plain = opened()
    assert (plain.tta, plain.plain_sha256) == ("none", plain.sha256)
    assert plain.prior == Prior.trained(HeadParameters())
    mirrored = opened(plain=plain.sha256)
    assert (mirrored.tta, mirrored.plain_sha256) == ("hflip", plain.sha256)
    config = next(entry.value for entry in graph.metadata_props if entry.key == "frn.config")
    untrained = opened(config=json.dumps(json.loads(config) | {"backbone": "timm:resnet18"}))
    assert (untrained.untrained_head, untrained.prior) == (True, UNTRAINED)
    other = opened(config=json.dumps(json.loads(config) | {"method": "proto"}), head="{}")
    assert (other.method, other.head, other.prior) == ("proto", None, UNTRAINED)


def test_the_default_model_has_the_variety_of_usual_photos() -> None:
    prior = load_extractor(DEFAULT_MODEL, "cpu").prior
    assert 0 < prior.likeness < prior.variety < 1


Model = onnx.ModelProto


@pytest.fixture(scope="module")
def shipped() -> Path:
    return shipped_extractors()["conv4"]


def constant(model: Model, name: str, value: object, dtype: type = np.int64) -> str:
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(value, dtype=dtype), name))
    return name


def add_to_maps(model: Model, value: str) -> None:
    """Make the maps depend on a value, so that the value is computed."""
    (last,) = (node for node in model.graph.node if "feature_map" in node.output)
    last.output[0] = "maps"
    model.graph.node.append(helper.make_node("ReduceSum", [value], ["extra"], keepdims=0))
    model.graph.node.append(helper.make_node("Add", ["maps", "extra"], ["feature_map"]))


def expand(model: Model) -> None:
    one, shape = constant(model, "one", [0], np.float32), constant(model, "shape", [1 << 16, 1 << 16])
    model.graph.node.append(helper.make_node("Expand", [one, shape], ["huge"]))
    add_to_maps(model, "huge")


def double(model: Model) -> None:
    name = constant(model, "d0", [0] * 1024, np.float32)
    for i in range(22):
        model.graph.node.append(helper.make_node("Concat", [name, name], [f"d{i + 1}"], axis=0))
        name = f"d{i + 1}"
    add_to_maps(model, name)


def multiply(model: Model) -> None:
    """Products of 4,096 x 4,096 matrices: each is allowed and takes a second or more."""
    row, shape = constant(model, "row", [[0.0]], np.float32), constant(model, "side", [4096, 4096])
    model.graph.node.append(helper.make_node("Expand", [row, shape], ["p0"]))
    for i in range(60):
        model.graph.node.append(helper.make_node("MatMul", [f"p{i}", "p0"], [f"p{i + 1}"]))
    add_to_maps(model, "p60")


def hide_sizes(harm: Callable[[Model], None]) -> Callable[[Model], None]:
    """Make shapes depend on the pixels, so that the amount of work is unknown before a run."""

    def hidden(model: Model) -> None:
        harm(model)
        model.graph.node.insert(0, helper.make_node("ReduceSum", ["images"], ["sum"], keepdims=0))
        zero = constant(model, "zero", 0, np.float32)
        model.graph.node.insert(1, helper.make_node("Mul", ["sum", zero], ["nothing"]))
        model.graph.node.insert(2, helper.make_node("Cast", ["nothing"], ["none"], to=onnx.TensorProto.INT64))
        for node in list(model.graph.node):
            if node.op_type == "Expand":
                place = list(model.graph.node).index(node)
                model.graph.node.insert(place, helper.make_node("Add", [node.input[1], "none"], ["unknown shape"]))
                node.input[1] = "unknown shape"

    return hidden


def harmed(path: Path, harm: Callable[[Model], None]) -> bytes:
    model = onnx.load(path)
    harm(model)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("harm", [expand, double])
def test_oversized_value_is_refused_before_a_session_exists(shipped: Path, harm: Callable[[Model], None]) -> None:
    with pytest.raises(FrnError, match=r"m\.onnx: computes [\d,]+ numbers at '(huge|d\d+)' for one image"):
        check_model(harmed(shipped, harm), "m.onnx")


@pytest.mark.parametrize("harm", [multiply, hide_sizes(expand)])
def test_unpredictable_hangs_are_stopped_in_the_child(
    shipped: Path, harm: Callable[[Model], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_runtime, "SECONDS", 1.5)
    began = time.monotonic()
    with pytest.raises(FrnError, match=r"stopped|the model failed|out of memory|bad_alloc") as caught:
        Extractor(harmed(shipped, harm), "m.onnx", threads=1, device="cpu")
    assert len(str(caught.value).splitlines()) == 1
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_maps_with_nan_give_a_one_line_error(shipped: Path, value: float) -> None:
    def spoil(model: Model) -> None:
        add_to_maps(model, constant(model, "spoilt", [value], np.float32))

    extractor = Extractor(harmed(shipped, spoil), "m.onnx", threads=1, device="cpu")
    with pytest.raises(FrnError, match=r"^m\.onnx: returned a feature map that is not finite, or exceeds 1e\+12"):
        extractor.feature_maps(np.zeros((1, 32, 32, 3), np.uint8))


def test_an_untrusted_model_gives_the_same_answers(shipped: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    ours, theirs = (Extractor.open(shipped, trusted=trusted, threads=1, device="cpu") for trusted in (True, False))
    np.testing.assert_allclose(theirs.feature_maps(pixels), ours.feature_maps(pixels), rtol=0, atol=1e-5)
    assert theirs.feature_maps(pixels[:0]).shape == (0, *theirs.shape)
    assert (theirs.shape, theirs.grid, theirs.head, theirs.sha256) == (ours.shape, ours.grid, ours.head, ours.sha256)


@pytest.mark.parametrize("threads", [2, 3, 40])
def test_maps_do_not_depend_on_threads_and_other_images(shipped: Path, tmp_path: Path, threads: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    one, several = (Extractor.open(shipped, trusted=True, threads=n, device="cpu") for n in (1, threads))
    maps, paths = one.feature_maps(pixels), [tmp_path / f"{n}.png" for n in range(5)]
    for path, image in zip(paths, pixels, strict=True):
        Image.fromarray(image).save(path)
    np.testing.assert_array_equal(several.feature_maps(pixels[3:4]), maps[3:4])
    assert several.feature_maps(pixels[:0]).shape == (0, *one.shape)
    embedded = [each for _, each in several.read(paths * 20) if isinstance(each, Embedded)]
    np.testing.assert_array_equal([each.maps for each in embedded], np.tile(maps, (20, 1, 1)))


LITTLE = 1280 * 2**20 + 4 * 3000 + 2 * 16 * 2**20


@pytest.mark.parametrize(
    ("device", "cuda", "memory"),
    [("cpu", True, LITTLE), ("cpu", False, LITTLE), ("auto", False, LITTLE), ("auto", True, 8 * 2**30)],
)
def test_an_untrusted_model_gets_the_memory_and_time_that_the_security_page_states(
    monkeypatch: pytest.MonkeyPatch, device: Device, cuda: bool, memory: int
) -> None:
    monkeypatch.setattr(onnx_runtime, "cuda_answers", lambda: cuda)
    allowed: list[float] = []

    class Worker:
        lives = True

        def __init__(self, name: str, memory: int) -> None:
            allowed.append(memory)

        def ask(self, question: Message, blobs: list[bytes], seconds: float) -> object:
            allowed.append(seconds)
            signature: Message = {"metadata": {}, "inputs": [], "outputs": [], "seconds": 7.0, "shape": [1]}
            return signature, [bytes(4)]

    monkeypatch.setattr(onnx_runtime, "SandboxedWorker", Worker)
    model = onnx_runtime.ForeignModel(bytes(3000), "m.onnx", device, 2)
    for count in (0, 1, 10):
        model.run({"images": np.zeros((count, 1), np.float32)})
    model.run({"support": np.zeros((1, 1), np.float32)})
    assert allowed == [memory, pytest.approx(30, rel=1e-4), 30, 5 * 7, 5 * 7 * 10, 120]
