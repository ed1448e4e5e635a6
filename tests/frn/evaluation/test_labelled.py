"""Scores on labelled photos: counts, skipped files, and output files."""

import csv
import json
import math
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from frn.cli.main import app
from frn.errors import FrnError
from frn.estimator.loading import load_classifier
from frn.evaluation.labelled import Answer, LabelledScore, score_labelled, wilson
from frn.inference.classifier import Prediction
from frn.models.zoo import assets_folder
from frn.report.csv_rows import csv_text
from frn.report.score_page import score_page
from tests import processes

SAMPLES = assets_folder() / "samples"


def answer(truth: str, a: float, *, known: float = 0.9, name: str = "x.jpg") -> Answer:
    """A photo with answer `a` at this probability, and `b` otherwise."""
    return Answer(
        Path(name), truth, Prediction({"a": a, "b": 1 - a}, {"a": 1 - a, "b": a}, {"a": known, "b": known}, 0.5, known)
    )


COUNTED = LabelledScore(
    classes=("a", "b"),
    known=(answer("a", 0.9), answer("a", 0.7), answer("a", 0.2), answer("b", 0.95, known=0.4, name="<b>.jpg")),
    unknown=(answer("c", 0.6, known=0.3), answer("c", 0.6, known=0.6)),
    examples=(),
    broken=(),
)


def test_every_number_equals_the_count_by_hand() -> None:
    assert (COUNTED.right, COUNTED.accuracy) == (2, 0.5)
    np.testing.assert_array_equal(COUNTED.confusion, [[2, 1], [1, 0]])
    assert [(c.photos, c.right, c.called) for c in COUNTED.per_class] == [(3, 2, 3), (1, 0, 1)]
    assert COUNTED.per_class[0].recall == COUNTED.per_class[0].precision == pytest.approx(2 / 3)
    assert [error.probability for error in COUNTED.errors] == [0.95, 0.8]  # the most confident one is first
    # Bins: 0.7 is right; 0.8 is wrong; 0.9 and 0.95 are right in half.
    assert COUNTED.calibration.error == pytest.approx((0.3 + 0.8 + 2 * (0.925 - 0.5)) / 4)
    assert (COUNTED.false_rejections, COUNTED.true_positive_rate) == (0.25, 0.5)
    assert COUNTED.auroc == pytest.approx((3 + 3 + 0 + 1) / 8)


def test_class_without_queries_has_no_recall_or_precision() -> None:
    one = LabelledScore(("a", "b"), (answer("a", 0.9),), (), (), ())
    empty = one.per_class[1]
    assert one.calibration.error == pytest.approx(0.1)
    assert [math.isnan(n) for n in (empty.recall, empty.precision, one.true_positive_rate, one.auroc)]


@pytest.mark.parametrize("right", [0, 1, 5, 19, 20])
def test_wilson_interval_contains_the_values_that_the_score_test_accepts(right: int) -> None:
    """The bounds are the shares p that differ from the measured share by Z standard errors of p."""
    for end in wilson(right, 20):
        assert 0 <= end <= 1
        assert abs(right / 20 - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / 20), abs=1e-9)


def test_output_files_list_every_photo_and_escape_markup() -> None:
    rows = list(csv.DictReader(csv_text(list(COUNTED.rows[0]), COUNTED.rows).splitlines()))
    assert [row["label"] for row in rows] == ["a", "a", "b", "a", "a", "a"]
    assert float(rows[2]["probability of b"]) == 0.8
    page = "".join(score_page(COUNTED, "a & b", "frn score", {}))
    assert "&lt;b&gt;.jpg" in page
    assert "<b>.jpg" not in page
    assert "a &amp; b" in page
    assert "labelled unknown (40% explained by a)" in page
    assert "95%" not in page.partition("Wrong answers")[2], "the probability of a rejected class"


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """The sample queries by class, including one example, a broken file, and a class that is not enrolled."""
    for query in (SAMPLES / "queries").iterdir():
        home = tmp_path / "labelled" / query.stem.rpartition(" ")[0]
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(query, home)
    example = next((SAMPLES / "moths" / "eyed footman").iterdir())
    shutil.copy(example, tmp_path / "labelled" / "eyed footman" / "under another name.jpg")
    (tmp_path / "labelled" / "eyed footman" / "broken.jpg").write_bytes(b"no picture")
    (tmp_path / "labelled" / "noise").mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "labelled" / "noise" / "1.png")
    return tmp_path / "labelled"


def frn(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_score_command_reports_everything(labelled: Path, tmp_path: Path) -> None:
    files = ["--csv", tmp_path / "s.csv", "--report", tmp_path / "s.html"]
    told = frn("score", SAMPLES / "moths", labelled, "--json", *files)
    assert told.exit_code == 1  # one file is unreadable
    found = json.loads(told.stdout)
    assert (found["photos"], found["examples_skipped"], found["unknown"], len(found["broken"])) == (18, 1, 1, 1)
    right = sum(entry["right"] for entry in found["per_class"].values())
    assert found["accuracy"] == pytest.approx(right / 18, abs=1e-6)
    assert right >= 15
    assert found["interval"][0] < found["accuracy"] <= found["interval"][1]
    assert np.sum(found["confusion"]) == 18
    assert found["true_positive_rate"] == 1.0
    assert len((tmp_path / "s.csv").read_text(encoding="utf-8").splitlines()) == 1 + 19
    page = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert page.count("data:image/jpeg") == len(found["errors"])

    (labelled / "eyed footman" / "broken.jpg").unlink()
    shown = frn("score", SAMPLES / "moths", labelled)
    assert shown.exit_code == 0
    assert f"accuracy {found['accuracy']:.1%} (" in shown.stdout


def test_folders_that_cannot_be_scored_are_reported(tmp_path: Path, labelled: Path) -> None:
    classifier, _ = load_classifier(SAMPLES / "moths", "conv4")
    with pytest.raises(FrnError, match=r"none of its folders \(jay\) is named after a class \(banded"):
        score_labelled(classifier, {"jay": []})
    with pytest.raises(FrnError, match="5 are examples, 0 are near copies"):
        score_labelled(classifier, {"eyed footman": sorted((SAMPLES / "moths" / "eyed footman").iterdir())})


def test_scoring_does_not_need_torch(labelled: Path) -> None:
    code = "import sys; from frn.cli.main import app; app(sys.argv[1:], standalone_mode=False)"
    words = [sys.executable, "-c", code + "; print('torch' in sys.modules)", "score", str(SAMPLES / "moths")]
    (labelled / "eyed footman" / "broken.jpg").unlink()
    result = processes.run([*words, str(labelled), "--model", "conv4"])
    assert result.stdout.rstrip().endswith("False"), result.stderr


def test_blanks_around_folder_names_are_ignored(tmp_path: Path) -> None:
    """This holds for photos to be scored, and for a class without a readable photo."""
    photo = SAMPLES / "queries" / "eyed footman 6.jpg"
    shutil.copytree(SAMPLES / "moths" / "eyed footman", tmp_path / "classes" / " eyed footman")
    (tmp_path / "labelled" / "eyed footman ").mkdir(parents=True)
    shutil.copy(photo, tmp_path / "labelled" / "eyed footman ")
    result = frn("score", tmp_path / "classes", tmp_path / "labelled", "--json", "--model", "conv4")
    assert json.loads(result.stdout)["photos"] == 1
    for path in (tmp_path / "classes" / " eyed footman").iterdir():
        path.write_bytes(b"no photo")
    told = frn("classify", tmp_path / "classes", photo, "--model", "conv4").stderr
    assert "class 'eyed footman' has no usable image among" in told


def test_a_broken_photo_is_reported_before_skipped_ones_and_exits_with_an_error(labelled: Path) -> None:
    for number in range(6):
        (labelled / "eyed footman" / f"{number}.txt").touch()
    told = frn("score", SAMPLES / "moths", labelled, "--model", "conv4").stderr.splitlines()
    assert told[0].startswith(f"warning: {labelled / 'eyed footman' / 'broken.jpg'}: is not an image")
    assert told[-1] == "error: 1 of 21 images could not be read"
