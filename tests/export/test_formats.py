"""Files in other formats give the same results as the ONNX files, or are refused."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from frn_export.formats import Values, _compare, _sampled, converted
from frn_export.graphs.builder import FLOAT, INT64, STRING, GraphBuilder, Shape
from frn_export.graphs.head import head_graph
from typer.testing import CliRunner, Result

from frn.cli.main import app
from frn.errors import FrnError
from frn.inference.onnx_runtime import open_session
from frn.models.zoo import assets_folder
from frn.ridge.parameters import HeadParameters

CLASSES = assets_folder() / "samples" / "moths"


def export(*words: object) -> Result:
    words = ("export", "--model", "conv4", "--classes", CLASSES, "--json", *words)
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.mark.parametrize(("kind", "files"), [("ort", 5), ("openvino", 6)])
def test_a_format_is_written_its_difference_reported_and_the_next_export_removes_it(
    kind: str, files: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if kind == "openvino":
        pytest.importorskip("openvino")
    told = json.loads(export("--out", tmp_path / "out", "--as", kind).stdout)
    written = {path for path in (tmp_path / "out").iterdir() if path.suffix not in ("", ".onnx", ".md")}
    assert {Path(told[path.name]) for path in written} == written
    assert len(written) == files
    compared = {name: share for name, share in told.items() if name.endswith(f"_{kind}_difference")}
    assert {"features", "head", "classifier-batch"} <= {name.removesuffix(f"_{kind}_difference") for name in compared}
    assert max(compared.values()) <= 2e-5
    assert capfd.readouterr().err == ""  # also of the libraries, which write to the descriptor
    if kind == "ort":
        onnxruntime.InferenceSession(tmp_path / "out" / "classifier.ort")
        assert export("--out", tmp_path / "out").exit_code == 0
        assert not [path for path in written if path.exists()]


@pytest.fixture
def head() -> dict[str, bytes]:
    return {"head": head_graph(HeadParameters()).SerializeToString()}


def test_file_with_different_results_is_refused(head: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frn_export.formats.TOLERANCE", -1.0)
    with pytest.raises(FrnError, match=r"head as ort differs from the original .* Nothing was written"):
        converted(head, "ort")


def test_a_missing_extra_is_reported_with_its_install_command(
    head: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(FrnError, match=r"--as openvino needs OpenVINO: .*openvino>=2024\.6"):
        converted(head, "openvino")


def test_difference_is_the_largest_over_all_outputs_and_labels_must_be_equal() -> None:
    graph = GraphBuilder()
    graph.node("Mul", "images", graph.constant(4.0), output="large")
    graph.node("Mul", "images", graph.constant(0.0), output="zero")
    index = graph.node("Cast", graph.node("ReduceMax", "images", graph.ints(0), keepdims=0), to=INT64)
    graph.node("Gather", graph.constant(np.array(["jay", "owl"], dtype=object)), index, output="label")
    outputs: dict[str, tuple[int, Shape]] = {"large": (FLOAT, ("n",)), "zero": (FLOAT, ("n",)), "label": (STRING, ())}
    model = graph.model({"images": (FLOAT, ("n",))}, outputs, {}, "small", kind="small").SerializeToString()
    run = open_session(model, "small", device="cpu").run

    def share(**changed: object) -> float:
        def other(inputs: Values) -> Values:
            print("noise")
            found = dict(zip(outputs, run(list(outputs), dict(inputs)), strict=True))
            return {name: np.asarray(changed.get(name, value)) for name, value in found.items()}

        return _compare(model, other, "small").share

    inputs = _sampled(open_session(model, "small", device="cpu").get_inputs())["images"]
    assert len(inputs) == 2
    assert share() == 0
    assert share(large=4 * inputs - 0.01) == pytest.approx(0.01 / (4 * inputs.max()), rel=1e-3)
    assert share(large=4 * inputs + 0.01 * (inputs == inputs.min())) == pytest.approx(
        0.01 / (4 * inputs.max()), rel=1e-3
    )
    assert share(label="owl") == 1
    assert share(zero=np.full(2, 1e-31)) == pytest.approx(0.1)
    difference = _compare(model, lambda inputs: dict(zip(outputs, run(list(outputs), dict(inputs)), strict=True)), "x")
    assert (difference.allowed, difference.unit) == (2e-5, "the largest number")


def test_conversion_prints_nothing(head: dict[str, bytes], capfd: pytest.CaptureFixture[str]) -> None:
    files, differences = converted(head, "ort")
    assert (list(files), list(differences)) == (["head.ort"], ["head_ort_difference"])
    assert capfd.readouterr() == ("", "")
    assert converted(head, "onnx") == ({}, {})
