"""The programs in docs/guides/runtimes.md enroll and classify as in Python; probabilities agree within 0.001."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from frn.estimator.loading import load_extractor
from frn.features.extractor import Extractor
from frn.features.feature_cache import Maps
from frn.images.opening import open_image
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import probabilities
from tests import processes
from tests.commands import frn
from tests.drawings import DRAWINGS, MOTHS

PROGRAMS = Path(__file__).parents[1] / "docs" / "guides" / "runtimes"
SHOTS = {"eyed footman": 5, "swallow footman": 3, "tailed footman": 2}
QUERIES = sorted((DRAWINGS / "queries").glob("*[mnd] 6.jpg"))

pytestmark = [
    pytest.mark.runtimes,
    pytest.mark.skipif(
        not {"FRN_ORT_NODE", "FRN_ORT_C"} & os.environ.keys(), reason="needs a runtime: docs/guides/runtimes.md"
    ),
]


def needed(variable: str, *programs: str) -> Path:
    """Return the folder named by an environment variable; skip the test if it or a program is missing."""
    folder = os.environ.get(variable)
    missing = [program for program in programs if not shutil.which(program)]
    if not folder or missing:
        pytest.skip(f"needs {' and '.join(missing or [f'{variable} (docs/guides/runtimes.md)'])}")
    return Path(folder).resolve()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported files, and photos in JPEG and PPM format."""
    folder = tmp_path_factory.mktemp("runtimes")
    words = ["export", "--model", "conv4", "--out", str(folder / "exported")]
    assert frn(*words).exit_code == 0
    photos = [(path, f"classes/{name}") for name, k in SHOTS.items() for path in examples(name)[:k]]
    for path, home in [*photos, *((path, "queries") for path in QUERIES)]:
        for kind in ("jpg", "ppm"):
            (folder / kind / home).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / "jpg" / home)
        Image.open(path).save(folder / "ppm" / home / f"{path.stem}.ppm")
    return folder


def examples(name: str) -> list[Path]:
    return sorted((MOTHS / name).iterdir())


def run(place: Path, kind: str, *program: object) -> list[list[str]]:
    queries = sorted((place / kind / "queries").iterdir())
    words = [*program, place / "exported", place / kind / "classes", *queries]
    done = processes.run(words)
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def assert_as_python(told: list[tuple[str, float]]) -> None:
    extractor = load_extractor("conv4")
    assert extractor.head is not None
    usual = sorted(SHOTS.values())[1]
    head = replace(
        extractor.head, gamma=extractor.prior.head(usual).gamma
    )  # the trained gamma, which is reduced for few examples
    pools = [maps_of(extractor, examples(name)[:k]) for name, k in SHOTS.items()]
    errors = ClassScorer([enroll(pool, head) for pool in pools]).class_error(maps_of(extractor, QUERIES))
    expected = probabilities(errors, head.gamma)
    assert [label for label, _ in told] == [list(SHOTS)[best] for best in expected.argmax(1)]
    assert [share for _, share in told] == pytest.approx(expected.max(1).tolist(), abs=1e-3)


def maps_of(extractor: Extractor, paths: list[Path]) -> Maps:
    return extractor.feature_maps(np.stack([extractor.transform(open_image(path)) for path in paths]))


def test_javascript_program_gives_the_same_answers_as_python(place: Path) -> None:
    modules = needed("FRN_ORT_NODE", "node")
    (place / "node_modules").symlink_to(modules)
    program = shutil.copy(PROGRAMS / "classify.mjs", place)
    lines = [json.loads("\t".join(line)) for line in run(place, "jpg", "node", program)]
    assert_as_python([(line["label"], line["probability"]) for line in lines])


@pytest.mark.parametrize("language", ["cpp", "rs"])
def test_compiled_programs_give_the_same_answers_as_python(language: str, place: Path) -> None:
    compiler = {"cpp": "g++", "rs": "rustc"}[language]
    ort = needed("FRN_ORT_C", compiler)
    rpath, source, program = f"-Wl,-rpath,{ort}/lib", PROGRAMS / f"classify.{language}", place / language
    if language == "cpp":
        words = ["-std=c++17", source, f"-I{ort}/include", f"-L{ort}/lib", "-lonnxruntime", rpath]
    else:
        words = ["--edition", "2021", source, "-L", f"{ort}/lib", "-C", f"link-arg={rpath}"]
    processes.run([compiler, *words, "-o", program], check=True)
    assert_as_python([(label, float(share)) for _, label, share in run(place, "ppm", program)])
