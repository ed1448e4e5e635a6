"""The page computes the same `known` as Python: its script, run by Node.js."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from frn_export.web.runtime import Runtime
from frn_export.web.write import write_page

from frn.estimator.loading import load_extractor
from frn.features.extractor import Embedded
from frn.inference.classifier import Classifier
from tests.drawings import DRAWINGS

SAMPLES = DRAWINGS
STUB = b"export const env = { wasm: {} }; export class Tensor {}"
RUN = """
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


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@pytest.mark.parametrize("sizes", [(5, 5, 5), (1, 3, 5)])
def test_page_and_python_know_the_same_photos(sizes: tuple[int, ...], tmp_path: Path) -> None:
    classifier = Classifier(load_extractor("conv4", "cpu"))
    homes = sorted((SAMPLES / "moths").iterdir())
    classifier.enroll({home.name: sorted(home.iterdir())[:size] for home, size in zip(homes, sizes, strict=False)})
    assert (max(classifier.rule.offsets, default=0) > 0) == (len(set(sizes)) > 1)
    write_page(classifier, tmp_path, Runtime("1.30.0", STUB, b"\0asm"), replace=False)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    cases, expected = [], []
    for _, seen in classifier.read(sorted((SAMPLES / "queries").iterdir())[::3]):
        assert isinstance(seen, Embedded)
        errors = classifier.scorer.location_errors(seen.maps, None).T
        cases.append({"map": seen.maps.astype(float).ravel().tolist(), "errors": errors.astype(float).ravel().tolist()})
        expected.append(classifier.predict(seen.maps).known)
    run = RUN.format(script=json.dumps((tmp_path / "model.js").as_uri()), page=json.dumps(str(tmp_path / "page.json")))
    words = ["node", "--input-type=module", "--eval", run]
    done = subprocess.run(words, input=json.dumps(cases), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout), expected, atol=1e-4)
