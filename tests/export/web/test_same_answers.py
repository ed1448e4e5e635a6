"""The page's JavaScript, run by Node.js, computes the same as Python."""

import json
import math
import shutil
import subprocess
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frn_export.web.runtime import Runtime
from frn_export.web.write import write_page
from PIL import Image

from frn.estimator.loading import load_extractor
from frn.features.extractor import Embedded, Tta
from frn.features.onnx_runtime import open_session, run_session
from frn.images.boxes import Box, box_name
from frn.inference.classifier import Classifier
from frn.inference.enrollment import listed_state
from frn.inference.explanation import explain
from frn.inference.find.finder import SCALE
from frn.inference.find.windows import location_errors
from frn.report.parts import PartsOfPage
from tests.drawings import MOTHS, QUERIES

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
STUB = b"export const env = { wasm: {} }; export class Tensor {}"
KNOWN = """
import {{ readFileSync }} from "node:fs";
globalThis.self = {{}};
const {{ Model }} = await import({script});
const known = [];
for (const {{ map, errors }} of JSON.parse(readFileSync(0))) {{
  const scores = {{ run: async () => ({{ error_map: {{ data: Float32Array.from(errors) }} }}) }};
  const model = new Model(JSON.parse(readFileSync({page})), {{ scores }});
  const classes = model.exportedClasses(), fewest = Math.min(...classes.map(({{ shots }}) => shots));
  known.push((await model.score(Float32Array.from(map), classes, fewest))[0].known);
}}
console.log(JSON.stringify(known));
"""


def run(code: str, script: Path, cases: object, **values: str) -> Any:
    """Give cases to a program that imports a script of the page, and return what it prints."""
    words = ["node", "--input-type=module", "--eval", code.format(script=json.dumps(script.as_uri()), **values)]
    done = subprocess.run(words, input=json.dumps(cases), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("sizes", [(5, 5, 5), (1, 3, 5)])
def test_page_and_python_know_the_same_photos(sizes: tuple[int, ...], tmp_path: Path) -> None:
    classifier = Classifier(load_extractor("conv4", "cpu"))
    homes = sorted(MOTHS.iterdir())
    classifier.enroll({home.name: sorted(home.iterdir())[:size] for home, size in zip(homes, sizes, strict=False)})
    assert (max(classifier.rule.offsets, default=0) > 0) == (len(set(sizes)) > 1)
    write_page(classifier, tmp_path, Runtime("1.30.0", STUB, b"\0asm"), replace=False)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    cases, expected = [], []
    for _, seen in classifier.read(sorted(QUERIES.iterdir())[::3]):
        assert isinstance(seen, Embedded)
        errors = classifier.scorer.location_errors(seen.maps, None).T
        cases.append({"map": seen.maps.astype(float).ravel().tolist(), "errors": errors.astype(float).ravel().tolist()})
        expected.append(classifier.predict(seen.maps).known)
    run = KNOWN.format(
        script=json.dumps((tmp_path / "model.js").as_uri()), page=json.dumps(str(tmp_path / "page.json"))
    )
    words = ["node", "--input-type=module", "--eval", run]
    done = subprocess.run(words, input=json.dumps(cases), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout), expected, atol=1e-4)


SEARCHED = """
import {{ readFileSync }} from "node:fs";
globalThis.self = {{}};
const {{ rankedWindows }} = await import({script});
const found = JSON.parse(readFileSync(0)).map(({{ lengths, learned, columns, sizes, own, ...errors }}) =>
  rankedWindows(errors, lengths, learned, columns, sizes, own ?? undefined));
console.log(JSON.stringify(found));
"""


@pytest.mark.parametrize(("way", "tta", "graph"), [(3, "hflip", "search"), (1, "none", "features")])
def test_page_and_python_search_the_same_windows(way: int, tta: Tta, graph: str, tmp_path: Path) -> None:
    classifier = Classifier(load_extractor("conv4", "cpu", tta))
    homes = sorted(MOTHS.iterdir())[:way]
    members = {home.name: sorted(home.iterdir())[: number + 1] for number, home in enumerate(homes)}
    members = {name: [Path(box_name(str(path), Box(5, 6, 70, 70))) for path in own] for name, own in members.items()}
    classifier.enroll_state(replace(listed_state(members), search="one"))
    write_page(classifier, tmp_path, Runtime("1.30.0", STUB, b"\0asm"), replace=False)
    search = json.loads((tmp_path / "page.json").read_text())["search"]
    assert (search["graph"], search["scale"], (tmp_path / "search.onnx").exists()) == (graph, SCALE, tta != "none")

    finder, sought = classifier.finder, classifier.sought
    pixels = np.asarray(Image.open(next(QUERIES.iterdir())).convert("RGB").resize((200, 130)))
    maps = finder.maps(pixels, SCALE)
    rows, columns = maps.shape[:2]
    (h, w), side = classifier.extractor.grid, search["side"]
    sizes = np.array([rows * side // h, columns * side // w])
    sessions = {name: open_session((tmp_path / f"{name}.onnx").read_bytes(), name) for name in ("resize", graph)}
    (images,) = run_session(sessions["resize"], ["images"], {"image": pixels, "size": sizes})
    outputs = sessions[graph].run(None, {sessions[graph].get_inputs()[0].name: images})
    scaled = outputs[0] / np.sqrt(np.square(outputs[0]).sum(-1).mean())
    assert np.abs(scaled[0] - maps).max() < 0.02 * np.abs(maps).max()  # a grey level is 0.004

    errors, lengths = location_errors(maps, sought.scorer)
    shares = {"shares": sought.scorer.shares.tolist(), "usual": sought.scorer.usual}
    cells = errors.reshape(-1, way).T.tolist()
    assert np.any(search["weights"])
    learned = (maps @ np.array(search["weights"])).ravel().tolist()
    shared = {"cells": cells, **shares, "lengths": lengths.ravel().tolist(), "learned": learned}
    cases = [{**shared, "columns": columns, "sizes": finder.sizes, "own": own} for own in (None, way - 1)]
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for case, found in zip(cases, run(SEARCHED, tmp_path / "model.js", cases), strict=True):
        for windows, (margin, parts) in zip(found, finder.windows(maps, sought, case["own"]), strict=True):
            margins = {tuple(window["part"]): window["margin"] for window in windows}
            assert margins == pytest.approx(dict(zip(parts, margin.tolist(), strict=True)), abs=1e-5)
            assert [*margins.values()] == sorted(margins.values(), reverse=True)


EXPLAINED = """
import {{ explain }} from {script};
import {{ readFileSync }} from "node:fs";
const cases = JSON.parse(readFileSync(0));
console.log(JSON.stringify(cases.map((one) => {{
  const numbers = [], number = (photo) => (numbers.includes(photo) || numbers.push(photo), numbers.indexOf(photo));
  return explain(one.map, one.best, one.other, one.page, number, one.unknown);
}})));
"""


@pytest.mark.parametrize("sizes", [(5, 5, 5), (1, 3, 2), (2,)])
def test_page_and_python_name_the_same_parts(sizes: tuple[int, ...]) -> None:
    """Both formulations are covered: pools with more and with fewer rows than channels."""
    classifier = Classifier(load_extractor("conv4", "cpu"))
    homes = sorted(MOTHS.iterdir())
    classifier.enroll({home.name: sorted(home.iterdir())[:size] for home, size in zip(homes, sizes, strict=False)})
    head, maps = classifier.head, classifier.example_maps()
    page = {
        "grid": classifier.extractor.grid,
        "channels": classifier.extractor.shape[1],
        "ridge": {"lambda": math.exp(head.alpha), "floor": 1e-6, "rho": head.rho()},
    }
    cases, expected = [], []
    for number, (_, seen) in enumerate(classifier.read(sorted(QUERIES.iterdir())[::3])):
        assert isinstance(seen, Embedded)
        reasons = explain(classifier, seen.maps)
        classes = [
            one
            and {
                "name": one.name,
                "maps": [maps[photo.key].reshape(-1).astype(float).tolist() for photo in one.photos],
                "photos": [str(photo.path) for photo in one.photos],
                **classifier.classes[one.name].allowance._asdict(),
            }
            for one in (reasons.best, reasons.other)
        ]
        is_unknown = number % 2 == 1
        case = {"map": seen.maps.reshape(-1).astype(float).tolist(), "best": classes[0], "other": classes[1]}
        cases.append({**case, "page": page, "unknown": is_unknown})
        parts = json.loads(json.dumps(PartsOfPage().of(reasons)))
        expected.append({"why": reasons.sentence(unknown=is_unknown), "parts": parts})
    script = Path(str(files("frn_export.web") / "explanation.js"))
    for here, there in zip(run(EXPLAINED, script, cases), expected, strict=True):
        assert here["why"] == there["why"]
        assert _flat(here["parts"]) == pytest.approx(_flat(there["parts"]), abs=1.1e-3)


def _flat(parts: list[dict[str, object]]) -> list[float]:
    """All numbers of the parts, in order."""
    numbers: list[float] = []
    stack: list[object] = [parts]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack.extend(value[key] for key in sorted(value))
        elif isinstance(value, list):
            stack.extend(value)
        elif isinstance(value, int | float):
            numbers.append(value)
    return numbers
