"""The page searches photos for their subject as Python does: its script, run by Node.js, and its graphs."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from frn_export.web.runtime import Runtime
from frn_export.web.write import write_page
from PIL import Image

from frn.estimator.loading import load_extractor
from frn.features.extractor import Tta
from frn.features.onnx_runtime import open_session, run_session
from frn.images.boxes import Box, box_name
from frn.inference.classifier import Classifier
from frn.inference.enrollment import listed_state
from frn.inference.find.finder import SCALE
from frn.inference.find.windows import location_errors
from tests.drawings import DRAWINGS
from tests.export.web.test_known import STUB

RUN = """
import {{ readFileSync }} from "node:fs";
globalThis.self = {{}};
const {{ bestWindows }} = await import({script});
const found = JSON.parse(readFileSync(0)).map(({{ lengths, learned, columns, sizes, own, ...errors }}) =>
  bestWindows(errors, lengths, learned, columns, sizes, own ?? undefined));
console.log(JSON.stringify(found));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@pytest.mark.parametrize(("way", "tta", "graph"), [(3, "hflip", "search"), (1, "none", "features")])
def test_page_and_python_search_the_same_windows(way: int, tta: Tta, graph: str, tmp_path: Path) -> None:
    classifier = Classifier(load_extractor("conv4", "cpu", tta))
    homes = sorted((DRAWINGS / "moths").iterdir())[:way]
    members = {home.name: sorted(home.iterdir())[: number + 1] for number, home in enumerate(homes)}
    members = {name: [Path(box_name(str(path), Box(5, 6, 70, 70))) for path in own] for name, own in members.items()}
    classifier.enroll_state(replace(listed_state(members), search="one"))
    write_page(classifier, tmp_path, Runtime("1.30.0", STUB, b"\0asm"), replace=False)
    search = json.loads((tmp_path / "page.json").read_text())["search"]
    assert (search["graph"], search["scale"], (tmp_path / "search.onnx").exists()) == (graph, SCALE, tta != "none")

    finder, sought = classifier.finder, classifier.sought
    pixels = np.asarray(Image.open(next((DRAWINGS / "queries").iterdir())).convert("RGB").resize((200, 130)))
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
    allowed = allowances.ravel().tolist() if np.any(allowances := sought.scorer.allowances) else [0.0] * way
    cells = (errors - lengths * allowances).reshape(-1, way).T.tolist()
    assert np.any(search["weights"])
    learned = (maps @ np.array(search["weights"])).ravel().tolist()
    shared = {"cells": cells, "allowed": allowed, "lengths": lengths.ravel().tolist(), "learned": learned}
    cases = [{**shared, "columns": columns, "sizes": finder.sizes, "own": own} for own in (None, way - 1)]
    run = RUN.format(script=json.dumps((tmp_path / "model.js").as_uri()))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    words = ["node", "--input-type=module", "--eval", run]
    done = subprocess.run(words, input=json.dumps(cases), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for case, found in zip(cases, json.loads(done.stdout), strict=True):
        expected = [
            (margin.max(), parts[margin.argmax()]) for margin, parts in finder.windows(maps, sought, case["own"])
        ]
        for window, (margin, (left, top, width, height)) in zip(found, expected, strict=True):
            assert window["margin"] == pytest.approx(margin, abs=1e-5)
            places = [window["x"] / columns, window["y"] / rows, window["width"] / columns, window["height"] / rows]
            assert places == pytest.approx([left, top, width, height])
