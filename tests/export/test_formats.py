"""Files in other formats give the same results as the ONNX files, or are refused."""

import json
import sys
from pathlib import Path

import onnxruntime
import pytest
from frn_export.formats import converted
from frn_export.graphs.head import head_graph
from typer.testing import CliRunner, Result

from frn.cli.main import app
from frn.errors import FrnError
from frn.models.zoo import assets_folder
from frn.ridge.parameters import HeadParameters

CLASSES = assets_folder() / "samples" / "moths"


def export(*words: object) -> Result:
    words = ("export", "--model", "conv4", "--classes", CLASSES, "--json", *words)
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.mark.parametrize(("kind", "files"), [("ort", 5), ("openvino", 6)])
def test_a_format_is_written_its_difference_reported_and_the_next_export_removes_it(
    kind: str, files: int, tmp_path: Path
) -> None:
    if kind == "openvino":
        pytest.importorskip("openvino")
    told = json.loads(export("--out", tmp_path / "out", "--as", kind).stdout)
    written = {path for path in (tmp_path / "out").iterdir() if path.suffix not in (".onnx", ".md")}
    assert {Path(told[path.name]) for path in written} == written
    assert len(written) == files
    compared = {name: share for name, share in told.items() if name.endswith(f"_{kind}_difference")}
    assert {"features", "head", "classifier-batch"} <= {name.removesuffix(f"_{kind}_difference") for name in compared}
    assert max(compared.values()) <= 2e-5
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
