"""The model card among the exported files: its statements are true, and its code runs without this library."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import PIL
import pytest
import torch
from frn_export.card import OPEN_PHOTO, model_card
from frn_export.graphs.backbone import features_graph
from frn_export.graphs.head import head_graph
from PIL import Image

from frn._version import __version__
from frn.features.extractor import Extractor
from frn.features.feature_cache import Maps
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Classifier, Prediction
from frn.models.header import ModelConfig
from frn.models.model import Model
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import HeadParameters
from tests import processes
from tests.commands import frn
from tests.profiles import DISPLAY_P3, cmyk_profile, grey_profile, rgb_profile

TRANSFORMS = {
    "shorter": EvaluationTransform(size=32, resize=40),
    "square": EvaluationTransform(size=32, resize=40, square=True),
    "as is": EvaluationTransform(size=32),
}


def exported(transform: EvaluationTransform, method: str = "frn") -> dict[str, bytes]:
    torch.manual_seed(0)
    model = Model(ModelConfig(backbone="conv4", method=method, last_pool=False, transform=transform)).eval()
    files = {"features": features_graph(model).SerializeToString()}
    if method == "frn":
        files["head"] = head_graph(HeadParameters.of(model.head)).SerializeToString()
    return files


def code_blocks(card: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python with only numpy, pillow and onnxruntime."""
    home = tmp_path / "bare"
    processes.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    packages = next(home.glob("[Ll]ib/**/site-packages"))
    for package in (np, PIL, onnxruntime):
        folder = Path(str(package.__file__)).parent
        (packages / folder.name).symlink_to(folder, target_is_directory=True)
    for libraries in ("numpy.libs", "pillow.libs"):  # libraries that some wheels bundle
        if (folder.parent / libraries).is_dir():
            (packages / libraries).symlink_to(folder.parent / libraries, target_is_directory=True)
    return next(home.glob("bin/python"), home / "Scripts" / "python.exe")


def run(python: Path, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return processes.run([python, "-I", "-c", code], cwd=folder)


def maps_of(extractor: Extractor, paths: Sequence[Path]) -> Maps:
    return extractor.feature_maps(np.stack([extractor.transform(open_image(path)) for path in paths]))


@pytest.mark.nightly
def test_code_on_the_card_runs_in_a_bare_python_with_the_same_answers(
    bare_python: Path, moths: Path, tmp_path: Path
) -> None:
    for module in ("torch", "frn", "onnx"):
        assert f"No module named '{module}'" in run(bare_python, f"import {module}", tmp_path).stderr
    out = tmp_path / "out"
    examples = {"jay": [out / "jay-1.jpg", out / "jay-2.jpg"], "wren": [out / "wren-1.jpg"]}
    for name, home in (("jay", "moth 40"), ("wren", "moth 42")):
        for number, path in enumerate(examples[name]):
            for copy in (path, tmp_path / "classes" / name / path.name):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(moths / "test" / home / f"0{number}.png", copy)
    words = ["export", "--out", str(out), "--classes", str(tmp_path / "classes"), "--precision", "fp16"]
    assert frn(*words).exit_code == 0
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "into one of 2 classes" in card
    opening, classifying, embedding, comparing = code_blocks(card)

    classifier = Classifier(Extractor.open(out / "features.onnx"))
    classifier.enroll(examples)
    head = classifier.extractor.head
    assert head is not None
    trained = ClassScorer([enroll(maps_of(classifier.extractor, paths), head) for paths in examples.values()])
    for photo, expected in (("moth 40/07.png", "jay"), ("moth 42/07.png", "wren")):
        shutil.copy(moths / "test" / photo, out / "photo.jpg")
        ((_, prediction),) = classifier.classify([out / "photo.jpg"])
        assert isinstance(prediction, Prediction)
        assert prediction.label == expected
        answer = run(bare_python, opening + classifying, out)
        assert (answer.stdout.strip(), answer.stderr) == ("unknown" if prediction.unknown else expected, "")
        answer = run(
            bare_python, opening + embedding + comparing + 'print(*head.run(["class_error"], inputs)[0][0])', out
        )
        label, errors = answer.stdout.splitlines()
        assert (label, answer.stderr) == (expected, "")
        wanted = trained.class_error(maps_of(classifier.extractor, [out / "photo.jpg"]))[0]
        np.testing.assert_allclose([float(e) for e in errors.split()], wanted, rtol=2e-3)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_code_on_the_card_preprocesses_an_image_as_the_model_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = exported(TRANSFORMS[name])
    (tmp_path / "features.onnx").write_bytes(files["features"])
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    exec("\n".join(code_blocks(model_card(files, {}))[:2]), scope)
    extractor = Extractor(files["features"], "m")
    for size in ((32, 32), (97, 61), (40, 131)):
        pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 3), dtype=np.uint8)
        image = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
        image.save(tmp_path / "photo.png")
        found = scope["embed"](tmp_path / "photo.png")  # type: ignore[operator]
        expected = extractor.feature_maps(extractor.transform(image)[None])
        assert np.abs(found - expected).max() <= 5e-3 * expected.max(), size


@pytest.mark.parametrize("page", ["docs/guides/export.md", "docs/tutorials/deployment.md"])
def test_all_pages_open_photos_with_the_same_code(page: str) -> None:
    assert OPEN_PHOTO in (Path(__file__).parents[2] / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["plain", "turned", "p3", "cmyk", "grey"])
def test_documented_code_opens_photos_as_the_program_does(kind: str, tmp_path: Path) -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((64, 48))
    exif, profiles = Image.Exif(), {"p3": rgb_profile(DISPLAY_P3, 2.2), "cmyk": cmyk_profile(), "grey": grey_profile(1)}
    exif[0x0112] = 6 if kind in ("turned", "p3") else 1
    image = image.convert({"cmyk": "CMYK", "grey": "L"}.get(kind, "RGB"))
    image.save(tmp_path / "photo.jpg", exif=exif, icc_profile=profiles.get(kind))
    scope: dict[str, Any] = {}
    exec(OPEN_PHOTO, scope)
    opened = np.asarray(scope["open_photo"](tmp_path / "photo.jpg"))
    apart = np.abs(opened.astype(int) - np.asarray(open_image(tmp_path / "photo.jpg")))
    assert apart.max() <= (kind not in ("plain", "turned"))  # each program rounds converted colours in its own way


def test_the_card_describes_the_model_and_every_input_and_output() -> None:
    files = exported(TRANSFORMS["shorter"])
    record = {"data": "a | b\nc", "validation": {"accuracy": 57.0}}
    card = model_card(files, record, precision="int8", cost="60.00% in fp32, 59.90% in int8")
    for row in (
        "| backbone | conv4 |",
        "| method | frn |",
        "| image | 32 x 32 pixels, RGB: the shorter side to 40, then the centre 32 x 32 |",
        "| feature map | r = 16 locations (4 x 4) of d = 64 channels |",
        "| trained on | a \\| b c |",
        "| precision | int8: convolutions are computed with 8-bit integers (60.00% in fp32, 59.90% in int8) |",
        f"| program | frn {__version__} |",
        "| in | `images` | float32 | (n, 3, 32, 32) |",
        "| out | `feature_map` | float32 | (n, 16, 64) |",
        "| in | `shots` | int64 | (way) |",
        "| out | `logits` | float32 | (q, way) |",
    ):
        assert row in card
    (told,) = re.findall(r"```json\n(.*?)```", card, flags=re.DOTALL)
    assert told == json.dumps(record, indent=2, sort_keys=True) + "\n"
    assert "padded with zeros" in card
    assert "repeated" not in card
    assert "\n\n\n" not in card.replace(OPEN_PHOTO, "")
    assert re.search(r"\S\n\Z", card)
    for data in files.values():
        graph = onnx.load_model_from_string(data).graph
        assert all(f"| `{value.name}` |" in card for value in [*graph.input, *graph.output])


def test_a_model_without_a_closed_form_head_gets_a_card_for_its_extractor() -> None:
    card = model_card(exported(TRANSFORMS["as is"], "proto"), {})
    assert "| method | proto |" in card
    assert "| trained on | not recorded |" in card
    assert re.findall("^## (.*)", card, flags=re.MULTILINE) == ["features.onnx"]


def test_the_card_of_another_head_describes_its_outputs() -> None:
    head = exported(TRANSFORMS["as is"])["head"]  # only its inputs and outputs are described
    card = model_card({**exported(TRANSFORMS["as is"], "proto"), "head": head}, {})
    assert "repeated if a class has fewer" in card
    assert "negative logarithm of the probability" in card
    assert "padded with zeros" not in card
