"""Exported files in the oldest and newest onnxruntime, in onnxruntime-node and in other runtimes: `pytest -m runtimes`.

Each is installed into a separate environment, which needs a package index and takes a few minutes.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
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

from frn.features.extractor import Extractor
from frn.features.onnx_runtime import open_session, run_session
from frn.heads.frn import FRNHead
from frn.images.opening import open_image
from frn.inference.classifier import Classifier, Prediction
from frn.inference.unknown.rule import NEVER
from frn.models.model import load_model
from frn.models.zoo import DEFAULT_MODEL
from frn.ridge.parameters import HeadParameters
from tests.drawings import DRAWINGS, MOTHS, QUERIES
from tests.runtimes.environments import node_with, packages_in, place_of, python_with

pytestmark = pytest.mark.runtimes

HERE = Path(__file__).parent
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
    photos = sorted(DRAWINGS.glob("moths/*/*.jpg"))
    queries = [*sorted(QUERIES.iterdir()), *photos[4::5]]
    crops = np.stack([Extractor(plain, "x", trusted=True).transform(open_image(path)) for path in photos])
    for precision in PRECISIONS:
        folder = home / precision
        folder.mkdir()
        features = half(plain) if precision == "fp16" else int8(plain, crops) if precision == "int8" else plain
        extractor = Extractor(features, "x", trusted=True, threads=1)
        classifier = Classifier(extractor)
        classifier.enroll({place.name: sorted(place.iterdir())[:4] for place in sorted(MOTHS.iterdir())})
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


ONNXRUNTIME = {"oldest": ["numpy<2", f"onnxruntime=={OLDEST_RUNTIME}.0"], "newest": ["onnxruntime"]}
"""Packages of the environments with another onnxruntime."""


def onnxruntime_in(place: Path, which: str) -> str:
    """Return the Python of an environment with another onnxruntime, or skip the test."""
    if which == "oldest" and sys.version_info >= (3, 13):
        pytest.skip(f"onnxruntime {OLDEST_RUNTIME} is for Python up to 3.12")
    return python_with(place, *ONNXRUNTIME[which])


def run(words: Sequence[str | Path], **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a program, or skip the test if it takes too long."""
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, **settings)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{' '.join(map(str, words[1:]))} takes more than {SECONDS} s here")


@pytest.mark.parametrize("runtime", ["oldest", "newest", "node"])
def test_other_runtimes_give_the_same_labels(runtime: str, exported: Path, tmp_path: Path) -> None:
    place = place_of(runtime, tmp_path)
    if runtime == "node":
        command = node_with(place, "onnxruntime-node", "answers.mjs")
    else:
        command = [onnxruntime_in(place, runtime), str(HERE / "answers.py")]
    for precision in PRECISIONS:
        folder = exported / precision
        answer = run([*command, folder], cwd=place)
        assert answer.returncode == 0, answer.stderr
        found: dict[str, Any] = json.loads(answer.stdout)
        if runtime == "oldest":
            assert found["version"].startswith(OLDEST_RUNTIME)
        allowed = (ALLOWED_OLDEST if runtime == "oldest" else ALLOWED)[precision]
        differences = (f"{kind} {_compare(found[kind], folder, allowed):.1e}" for kind in KINDS)
        print(runtime, found["version"], precision, *differences)
        assert found["nearest"] == [0, 1]


KINDS = {"photos": "classifier.onnx", "batch": "classifier-batch.onnx"}


ALLOWED = {"fp32": 5e-3, "fp16": 5e-3, "int8": 3e-2}
"""Allowed difference of a probability. In int8, one grey level can change an activation by one step."""
ALLOWED_OLDEST = ALLOWED | {"int8": 0.15}  # the oldest onnxruntime rounds activations in int8 differently


def _compare(found: list[list[Any]], folder: Path, allowed: float) -> float:
    """Return the largest difference of a probability; labels must be equal, except of photos between two classes."""
    expected = json.loads((folder / "photos.json").read_text())["expected"]
    for (label, _), (wanted, row) in zip(found, expected, strict=True):
        best, second = sorted(row, reverse=True)[:2]
        assert label == wanted or best - second < allowed
    worst = float(np.abs(np.array([row for _, row in found]) - [row for _, row in expected]).max())
    assert worst <= allowed
    return worst


ROWS = {
    "oldest": "onnxruntime, oldest",
    "newest": "onnxruntime, newest",
    "reference": "onnx's reference evaluator",
    "openvino": "OpenVINO",
    "tract": "tract",
    "onnx2torch": "onnx2torch",
    "ncnn": "ncnn, by pnnx, one image",
}
"""Runtimes and their names in the table, in its order."""
TARGETS = {"openvino": ["openvino"], "tract": ["tract"], "onnx2torch": ["onnx2torch"], "ncnn": ["ncnn", "pnnx"]}
"""Packages that a runtime needs besides those of `frn`."""
SAME = {"features": 1e-5, "head": 1e-4, "preprocess": 1.001 / 255, "classifier": 5e-3, "classifier-batch": 1e-4}
"""Largest difference of an output that counts as equal; for preprocessed images it is one grey level."""
SECONDS = 300  # seconds that a runtime may take for a graph
PAGE = HERE.parents[1] / "docs" / "guides" / "runtimes.md"
BEGIN, END = "<!-- table by pytest -m runtimes -->\n", "<!-- end of the table -->\n"


@pytest.fixture(scope="module")
def cases(exported: Path) -> Path:
    """Write the inputs of each graph in fp32 and the outputs of onnxruntime; return their folder."""
    folder = exported / "fp32"
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
    return folder


@pytest.mark.parametrize("runtime", ROWS)
def test_results_of_a_runtime_are_written_into_the_guide(runtime: str, cases: Path, tmp_path: Path) -> None:
    """Write a row of the table in the guide; one that is skipped keeps its row. What was the same must stay so."""
    before = dict(zip(SAME, _rows()[1].get(ROWS[runtime], "").split(" | ")[1:], strict=False))
    python, settings = sys.executable, dict(os.environ)
    if runtime in ONNXRUNTIME:
        python = onnxruntime_in(place_of(runtime, tmp_path), runtime)
        settings.pop("PYTHONPATH", None)
    elif runtime in TARGETS:
        settings["PYTHONPATH"] = packages_in(place_of(runtime, tmp_path), *TARGETS[runtime])
    cells, version = [], ""
    for name, allowed in SAME.items():
        words: list[str | Path] = [
            python,
            HERE / "other_runtimes.py",
            runtime,
            cases / f"{name}.onnx",
            cases / f"{name}.npz",
        ]
        done = run(words, env=settings)
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {"error": "ended"}
        version = told.get("version", version)
        difference = told.get("difference", np.inf)
        must_be_same = name == "features" or before.get(name, "").strip("| ") == "same"
        assert difference <= allowed or not must_be_same, (name, told, done.stderr[-500:])
        differs = "no" if difference == np.inf else f"differs by {difference:.2g}"
        cells.append("same" if difference <= allowed else differs)
    _write_row(ROWS[runtime], f"| {ROWS[runtime]} {version} | {' | '.join(cells)} |")


def _rows() -> tuple[str, dict[str, str], str]:
    """Return the rows of the table by runtime, and the page before and after it."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {name: line for line in table.splitlines() for name in ROWS.values() if line.startswith(f"| {name} ")}
    return before, rows, after


def _write_row(title: str, row: str) -> None:
    before, rows, after = _rows()
    rows[title] = row
    head = [f"| runtime | {' | '.join(f'`{name}.onnx`' for name in SAME)} |", "|---|" + "---|" * len(SAME)]
    lines = [*head, *(rows[name] for name in ROWS.values() if name in rows)]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n\n{END}{after}", encoding="utf-8")
