"""Exported files in the oldest and newest onnxruntime and in onnxruntime-node: `pytest -m runtimes`.

Each is installed into a separate environment, which needs network access and takes a few minutes. `FRN_RUNTIMES` names
a folder in which the environments are kept.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frn_export.card import OLDEST_RUNTIME
from frn_export.graphs.backbone import features_graph
from frn_export.graphs.classifier import batch_graph, classifier_graph
from frn_export.graphs.head import head_graph
from frn_export.graphs.prepare import preprocess_graph
from frn_export.quantise import half, int8
from PIL import Image

from frn.heads.frn import FRNHead
from frn.images.opening import open_image
from frn.inference.classifier import Classifier, Prediction
from frn.inference.extractor import Extractor
from frn.inference.onnx_runtime import open_session, run_session
from frn.inference.unknown import NEVER
from frn.models.model import load_model
from frn.models.zoo import DEFAULT_MODEL
from frn.ridge.parameters import HeadParameters
from tests.runtimes.environments import fetch, node_with, python_with

pytestmark = pytest.mark.runtimes

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "assets" / "samples"
PRECISIONS = ("fp32", "fp16", "int8")
SIZES = ((200, 200), (320, 240), (96, 130), (64, 64), (300, 40))
"""Sizes of the photos (width, height): some are reduced, some enlarged, and one is a strip."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder per precision with the four files, photos, and this library's results for them."""
    home = tmp_path_factory.mktemp("exported")
    model = load_model(DEFAULT_MODEL)
    assert isinstance(model.head, FRNHead)
    plain = features_graph(model).SerializeToString()
    photos = sorted(SAMPLES.glob("moths/*/*.jpg"))
    queries = [*sorted((SAMPLES / "queries").iterdir()), *photos[4::5]]
    crops = np.stack([Extractor(plain, "x", trusted=True).transform(open_image(path)) for path in photos])
    for precision in PRECISIONS:
        folder = home / precision
        folder.mkdir()
        features = half(plain) if precision == "fp16" else int8(plain, crops) if precision == "int8" else plain
        extractor = Extractor(features, "x", trusted=True, threads=1)
        classifier = Classifier(extractor)
        classifier.enroll({place.name: sorted(place.iterdir())[:4] for place in sorted((SAMPLES / "moths").iterdir())})
        gamma = classifier.head.gamma
        graphs = {
            "features": features,
            "head": head_graph(HeadParameters.of(model.head)).SerializeToString(),
            "classifier": classifier_graph(
                features, classifier.classes, gamma=classifier.head.gamma
            ).SerializeToString(),
            "classifier-batch": batch_graph(extractor, classifier.classes, rule=NEVER, gamma=gamma).SerializeToString(),
        }
        for name, data in graphs.items():
            (folder / f"{name}.onnx").write_bytes(data)
        _write_photos(folder, queries, classifier)
    return home


def _write_photos(folder: Path, queries: list[Path], classifier: Classifier) -> None:
    files, seen, expected = [], [], []
    for number, path in enumerate(queries):
        image = open_image(path).resize(SIZES[number % len(SIZES)], Image.Resampling.LANCZOS)
        image.save(folder / f"{number}.png")
        (folder / f"{number}.rgb").write_bytes(np.asarray(image).tobytes())
        files.append({"name": f"{number}.rgb", "width": image.width, "height": image.height})
        seen.append(classifier.extractor.transform(image).transpose(2, 0, 1) / np.float32(255))
    for _, prediction in classifier.classify([folder / f"{number}.png" for number in range(len(queries))]):
        assert isinstance(prediction, Prediction)
        expected.append([prediction.label, list(prediction.probabilities.values())])
    images = np.stack(seen).astype(np.float32)
    images.tofile(folder / "images.bin")
    (folder / "photos.json").write_text(json.dumps({"files": files, "images": images.shape, "expected": expected}))


@pytest.mark.parametrize("runtime", ["oldest", "newest", "node"])
def test_other_runtimes_give_the_same_labels(runtime: str, exported: Path, tmp_path: Path) -> None:
    place = Path(os.environ.get("FRN_RUNTIMES", tmp_path)) / runtime
    if runtime == "oldest" and sys.version_info >= (3, 13):
        pytest.skip(f"onnxruntime {OLDEST_RUNTIME} is for Python up to 3.12")
    if runtime == "node":
        command = node_with(place, "onnxruntime-node", "answers.mjs")
    elif runtime == "oldest":
        command = [python_with(place, "numpy<2", f"onnxruntime=={OLDEST_RUNTIME}.0"), str(HERE / "answers.py")]
    else:
        command = [python_with(place, "onnxruntime"), str(HERE / "answers.py")]
    for precision in PRECISIONS:
        folder = exported / precision
        answer = subprocess.run([*command, folder], cwd=place, capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        found: dict[str, Any] = json.loads(answer.stdout)
        if runtime == "oldest":
            assert found["version"].startswith(OLDEST_RUNTIME)
        print(runtime, found["version"], precision, *(f"{kind} {_compare(found[kind], folder):.1e}" for kind in KINDS))
        assert found["nearest"] == [0, 1]


KINDS = {"photos": "classifier.onnx", "batch": "classifier-batch.onnx"}


ALLOWED = {"fp32": 5e-3, "fp16": 5e-3, "int8": 2e-2}
"""Allowed difference of a probability. In int8, one grey level can change an activation by one step."""


def _compare(found: list[list[Any]], folder: Path) -> float:
    """Return the largest difference of a probability; labels must be equal."""
    expected = json.loads((folder / "photos.json").read_text())["expected"]
    assert [label for label, _ in found] == [label for label, _ in expected]
    worst = float(np.abs(np.array([row for _, row in found]) - [row for _, row in expected]).max())
    assert worst <= ALLOWED[folder.name]
    return worst


OTHERS = {
    "reference": ("onnx's reference evaluator", []),
    "openvino": ("OpenVINO", ["openvino"]),
    "tract": ("tract", ["tract"]),
    "onnx2torch": ("onnx2torch", ["onnx2torch"]),
    "ncnn": ("ncnn, by pnnx, one image", ["ncnn", "pnnx"]),
}
"""Third-party runtimes: their names in the table, and the additional packages that they need."""
SAME = {"features": 1e-5, "head": 1e-4, "preprocess": 1.001 / 255, "classifier": 5e-3, "classifier-batch": 1e-4}
"""Largest difference of an output that counts as equal; for preprocessed images it is one grey level."""
PAGE = HERE.parents[1] / "docs" / "guides" / "runtimes.md"
BEGIN, END = "<!-- table by pytest -m runtimes -->\n", "<!-- end of the table -->\n"


def cases(folder: Path) -> None:
    """Write the inputs of each graph and the outputs of onnxruntime."""
    model = load_model(DEFAULT_MODEL)
    graph = preprocess_graph(model.config.transform).SerializeToString()
    (folder / "preprocess.onnx").write_bytes(graph)
    image = np.asarray(open_image(folder / "1.png"))
    images = np.fromfile(folder / "images.bin", np.float32)
    images = images.reshape(json.loads((folder / "photos.json").read_text())["images"])[:2]
    maps = Extractor((folder / "features.onnx").read_bytes(), "x", trusted=True).session.run({"images": images})
    support = {"support": maps[:, None], "shots": np.ones(2, np.int64), "query": maps}
    inputs: dict[str, tuple[dict[str, Any], str]] = {
        "features": ({"images": images}, "feature_map"),
        "head": (support, "logits"),
        "preprocess": ({"image": image}, "images"),
        "classifier": ({"image": image}, "probability"),
        "classifier-batch": ({"images": images}, "probability"),
    }
    for name, (given, output) in inputs.items():
        session = open_session((folder / f"{name}.onnx").read_bytes(), name, device="cpu")
        (found,) = run_session(session, [output], given)
        np.savez(folder / f"{name}.npz", allow_pickle=False, **given, **{f".{output}": found})


def test_table_of_other_runtimes_is_written_into_the_guide(exported: Path, tmp_path: Path) -> None:
    """Write the results of each runtime into the guide; all of them must run the extractor."""
    folder = exported / "fp32"
    cases(folder)
    lines = [f"| runtime | {' | '.join(f'`{name}.onnx`' for name in SAME)} |", "|---|" + "---|" * len(SAME)]
    for runtime, (title, packages) in OTHERS.items():
        place = Path(os.environ.get("FRN_RUNTIMES", tmp_path)) / runtime
        if packages and not place.is_dir():
            place.mkdir(parents=True)
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(place), *packages]
            fetch(command, place)
        cells, version = [], ""
        for name, allowed in SAME.items():
            words: list[str | Path] = [
                HERE / "other_runtimes.py",
                runtime,
                folder / f"{name}.onnx",
                folder / f"{name}.npz",
            ]
            settings = {**os.environ, "PYTHONPATH": str(place)}
            done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=settings, timeout=900)
            told: dict[str, Any] = (
                json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {"error": "ended"}
            )
            version = told.get("version", version)
            difference = told.get("difference")
            if name == "features":
                assert told.get("difference", 1) <= allowed, (runtime, told)
            cells.append(
                "no" if difference is None else "same" if difference <= allowed else f"differs by {difference:.2g}"
            )
        lines.append(f"| {title} {version} | {' | '.join(cells)} |")
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
