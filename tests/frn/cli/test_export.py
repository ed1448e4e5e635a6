"""`frn export` in every precision: messages and refusals; a refused export leaves no files."""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from frn_export.graphs.backbone import features_graph
from PIL import Image
from typer.testing import Result

from frn.models.model import Model, load_model
from frn.models.zoo import shipped_extractors
from tests.commands import frn


@pytest.fixture(autouse=True)
def few_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frn_export.int8_accuracy.EPISODES", 100)


def export(*words: object) -> Result:
    return frn("export", *words)


@pytest.fixture
def two_classes(moths: Path, tmp_path: Path) -> Path:
    for home in sorted((moths / "test").iterdir())[:2]:
        (tmp_path / "two" / home.name).mkdir(parents=True)
        for path in sorted(home.iterdir())[:2]:
            shutil.copy(path, tmp_path / "two" / home.name)
    return tmp_path / "two"


def operators(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def test_int8_is_evaluated_and_used_by_its_classifier(moths: Path, two_classes: Path, tmp_path: Path) -> None:
    words = (
        "--model",
        "conv4",
        "--precision",
        "int8",
        "--calibrate",
        moths / "val",
        "--classes",
        two_classes,
        "--json",
    )
    results = [export("--out", tmp_path / name, *words, "--json") for name in ("a", "b")]
    assert [result.stderr for result in results] == ["", ""]
    told = json.loads(results[0].stdout)
    assert told["precision"] == "int8"
    assert told["drop"] == told["accuracy_fp32"] - told["accuracy"] <= 1
    assert told["difference"] <= 5e-6
    assert told["head_difference"] <= 5e-6
    assert told["classifier_difference"] <= 2e-2
    names = ["README.md", "SHA256SUMS", "classifier-batch.onnx", "classifier.onnx", "features.onnx", "head.onnx"]
    names += ["preprocess.onnx"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == names
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert "QuantizeLinear" in operators(tmp_path / "a" / "features.onnx")
    assert "QuantizeLinear" in operators(tmp_path / "a" / "classifier.onnx")
    card = (tmp_path / "a" / "README.md").read_text(encoding="utf-8")
    assert "int8: convolutions are computed with 8-bit integers (5-way 1-shot accuracy" in card
    assert not [name for name in names if str(tmp_path).encode() in (tmp_path / "a" / name).read_bytes()]


def test_both_classifiers_agree_for_few_shots(two_classes: Path, tmp_path: Path) -> None:
    """With two photos per class, both classifiers give softer probabilities."""
    assert export("--model", "conv4", "--classes", two_classes, "--out", tmp_path / "out").exit_code == 0
    opened = {path.stem: onnxruntime.InferenceSession(path) for path in (tmp_path / "out").glob("*.onnx")}
    image = np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)
    label, probability = opened["classifier"].run(["label", "probability"], {"image": image})
    (images,) = opened["preprocess"].run(None, {"image": image})
    labels, shares = opened["classifier-batch"].run(["label", "probability"], {"images": images})
    assert labels[0] == label
    np.testing.assert_allclose(shares[0], probability, atol=1e-5)
    told = frn("classify", two_classes, save(image, tmp_path), "--model", "conv4", "--json")
    expected = list(json.loads(told.stdout)["probabilities"].values())
    np.testing.assert_allclose(probability, expected, atol=1e-3)


def save(image: np.ndarray, folder: Path) -> Path:
    Image.fromarray(image).save(folder / "noise.png")
    return folder / "noise.png"


def test_fp16_halves_the_extractor_and_reports_every_difference(two_classes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = export("--model", "conv4", "--out", out, "--precision", "fp16", "--classes", two_classes)
    assert result.exit_code == 0, result.stderr
    for file, unit in (("features", "largest feature"), ("head", "query's energy"), ("classifier", "photo's energy")):
        assert re.search(f"{file}.onnx: differs from the original by at most .* of (the|a) {unit}", result.stdout)
    assert (out / "features.onnx").stat().st_size <= 0.51 * shipped_extractors()["conv4"].stat().st_size
    assert "Cast" in operators(out / "classifier.onnx")


def test_exported_half_precision_weights_load_as_a_model(tmp_path: Path) -> None:
    result = export("--model", "conv4", "--out", tmp_path, "--precision", "fp16", "--weights", "--json")
    path = Path(json.loads(result.stdout)["weights"])
    stored, shipped = load_model(path), load_model("conv4")
    assert path.stat().st_size <= 0.53 * 4 * sum(p.numel() for p in shipped.parameters())
    assert (stored.config, stored.record) == (shipped.config, shipped.record)
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        maps, wanted = stored.feature_maps(images), shipped.feature_maps(images)
    assert maps.dtype == torch.float32
    torch.testing.assert_close(maps, wanted, rtol=0, atol=float(5e-3 * wanted.abs().max()))


def test_int8_that_loses_too_much_is_refused_without_files(
    moths: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    untrained = features_graph(Model(load_model("conv4").config).eval()).SerializeToString()
    monkeypatch.setattr("frn_export.quantise.int8", lambda features, pixels: untrained)
    words = ("--model", "conv4", "--precision", "int8", "--calibrate", moths / "val")
    result = export("--out", tmp_path / "out", *words)
    assert result.exit_code == 1
    assert "error: int8 loses" in result.stderr
    assert "at most 1 is allowed. Use --precision fp16" in result.stderr
    assert not (tmp_path / "out").exists()
    assert export("--out", tmp_path / "out", *words, "--max-drop", 100).exit_code == 0


@pytest.mark.parametrize("file", ["features", "head", "classifier"])
def test_a_failed_check_leaves_no_file(
    file: str, two_classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {
        "features": "parity.HALF_TOLERANCE",
        "head": "parity.HEAD_TOLERANCE",
        "classifier": "export.CLASSIFIER_TOLERANCE",
    }
    monkeypatch.setattr(f"frn_export.{limits[file]}", 0.0)
    words = ("--model", "conv4", "--classes", two_classes, "--precision", "fp16")
    result = export("--out", tmp_path / "out", *words)
    assert result.exit_code == 1
    assert f"error: {file}.onnx" in result.stderr
    assert "Nothing was written." in result.stderr
    assert not (tmp_path / "out").exists()


def test_conflicting_options_are_reported_before_any_work(moths: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "--precision int8 needs --calibrate FOLDER" in export("--out", out, "--precision", "int8").stderr
    assert "fp16 needs no images" in export("--out", out, "--precision", "fp16", "--calibrate", moths).stderr
    assert "--threshold is stored in classifier.onnx" in export("--out", out, "--threshold", 0.5).stderr
    missing = export("--out", out, "--precision", "int8", "--calibrate", tmp_path / "none")
    assert "none: cannot be listed" in missing.stderr
    assert not out.exists()


def test_export_without_classes_removes_an_older_classifier(two_classes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert export("--model", "conv4", "--classes", two_classes, "--weights", "--out", out).exit_code == 0
    (out / "classifier-batch.onnx").write_bytes(b"\x08\x0a\x12\x03frn of another export")
    result = export("--model", "resnet12-small", "--out", out)
    assert result.exit_code == 0
    names = {"preprocess.onnx", "features.onnx", "head.onnx", "README.md", "SHA256SUMS", "classifier-batch.onnx"}
    assert {path.name for path in out.iterdir()} == names
    (out / "features.onnx").write_bytes((out / "preprocess.onnx").read_bytes())
    used = frn("classify", two_classes, "x.jpg", "--model", out / "features.onnx")
    assert "features.onnx: is not the file that SHA256SUMS in its folder lists" in used.stderr
    for name in ("classifier.onnx", "model.safetensors"):
        assert f"removed {out / name}: it belonged to the previous export\n" in result.stderr


def test_a_project_is_exported_with_its_own_model_and_threshold(two_classes: Path, tmp_path: Path) -> None:
    folder, project = two_classes, tmp_path / "m.frn.json"
    words = ["enroll", str(folder), "--model", "conv4", "--out", str(project), "--threshold", "0.25"]
    assert frn(*words).exit_code == 0
    result = export("--classes", project, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    session = onnxruntime.InferenceSession(tmp_path / "out" / "classifier.onnx")
    metadata = session.get_modelmeta().custom_metadata_map
    assert threshold_of(session) == 0.25
    assert json.loads(metadata["frn.classes"]) == sorted(path.name for path in folder.iterdir())
    assert 0 < exported_threshold(tmp_path, "--classes", folder, "--model", "conv4") < 1
    assert exported_threshold(tmp_path, "--classes", project, "--model", "conv4") == 0.25
    other = exported_threshold(tmp_path, "--classes", project, "--model", "resnet12-small")
    assert 0 < other < 1, "what was set for one model says nothing of another"


def exported_threshold(tmp_path: Path, *words: object) -> float:
    assert export(*words, "--out", tmp_path / "again").exit_code == 0
    return threshold_of(onnxruntime.InferenceSession(tmp_path / "again" / "classifier.onnx"))


def threshold_of(session: onnxruntime.InferenceSession) -> float:
    """Return the threshold for `known`."""
    return float(session.get_modelmeta().custom_metadata_map["frn.threshold"])


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="every name is text there")
def test_project_whose_model_has_changed_is_refused(two_classes: Path, tmp_path: Path) -> None:
    project = tmp_path / "m.frn.json"
    words = ["enroll", str(two_classes), "--model", "conv4", "--threshold", "0.9", "--out", str(project)]
    assert frn(*words).exit_code == 0
    document = json.loads(project.read_text())
    document["model"]["sha256"] = "0" * 64
    project.write_text(json.dumps(document))
    result = export("--classes", project, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "m.frn.json: was made with conv4 (00000000), but conv4 is a different model" in result.stderr
    assert not (tmp_path / "out").exists()


def test_class_name_that_is_not_valid_text_is_refused_early(two_classes: Path, tmp_path: Path) -> None:
    (two_classes / "moth 40").rename(two_classes / "\udcff")
    result = export("--out", tmp_path / "e", "--model", "conv4", "--classes", two_classes)
    assert result.stderr == "error: class '\\udcff': its name is not valid text (UTF-8). Rename its folder.\n"
    assert not (tmp_path / "e").exists()
