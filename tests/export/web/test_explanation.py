"""The page names the same parts as Python: its script, run by Node.js."""

import json
import math
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from frn.estimator.loading import load_extractor
from frn.features.extractor import Embedded
from frn.inference.classifier import Classifier
from frn.inference.explanation import explain
from frn.report.parts import PartsOfPage
from tests.drawings import DRAWINGS

SAMPLES = DRAWINGS
RUN = """
import {{ explain }} from {script};
import {{ readFileSync }} from "node:fs";
const cases = JSON.parse(readFileSync(0));
console.log(JSON.stringify(cases.map((one) => {{
  const numbers = [], number = (photo) => (numbers.includes(photo) || numbers.push(photo), numbers.indexOf(photo));
  return explain(one.map, one.best, one.other, one.page, number, one.unknown);
}})));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@pytest.mark.parametrize("sizes", [(5, 5, 5), (1, 3, 2), (2,)])
def test_page_and_python_name_the_same_parts(sizes: tuple[int, ...]) -> None:
    """Both formulations are covered: pools with more and with fewer rows than channels."""
    classifier = Classifier(load_extractor("conv4", "cpu"))
    homes = sorted((SAMPLES / "moths").iterdir())
    classifier.enroll({home.name: sorted(home.iterdir())[:size] for home, size in zip(homes, sizes, strict=False)})
    head, maps = classifier.head, classifier.example_maps()
    page = {
        "grid": classifier.extractor.grid,
        "channels": classifier.extractor.shape[1],
        "ridge": {"lambda": math.exp(head.alpha), "floor": 1e-6, "rho": head.rho()},
    }
    cases, expected = [], []
    for number, (_, seen) in enumerate(classifier.read(sorted((SAMPLES / "queries").iterdir())[::3])):
        assert isinstance(seen, Embedded)
        reasons = explain(classifier, seen.maps)
        classes = [
            one
            and {
                "name": one.name,
                "maps": [maps[photo.key].reshape(-1).astype(float).tolist() for photo in one.photos],
                "photos": [str(photo.path) for photo in one.photos],
                "allowance": classifier.classes[one.name].allowance,
            }
            for one in (reasons.best, reasons.other)
        ]
        is_unknown = number % 2 == 1
        case = {"map": seen.maps.reshape(-1).astype(float).tolist(), "best": classes[0], "other": classes[1]}
        cases.append({**case, "page": page, "unknown": is_unknown})
        parts = json.loads(json.dumps(PartsOfPage().of(reasons)))
        expected.append({"why": reasons.sentence(unknown=is_unknown), "parts": parts})
    script = json.dumps(Path(str(files("frn_export.web") / "explanation.js")).as_uri())
    words = ["node", "--input-type=module", "--eval", RUN.format(script=script)]
    done = subprocess.run(words, input=json.dumps(cases), capture_output=True, text=True, check=True)
    for here, there in zip(json.loads(done.stdout), expected, strict=True):
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
