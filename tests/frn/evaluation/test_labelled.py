"""Scores on labelled photos: counts, skipped files, and output files."""

import csv
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from frn.errors import FrnError
from frn.estimator.loading import load_classifier
from frn.evaluation.labelled import LabelledScore, score_labelled, wilson
from frn.inference.classifier import Prediction
from frn.inference.records import Answer, answer_of, lines
from frn.report.score_page import score_page
from tests.commands import frn
from tests.drawings import MOTHS, PHOTO, QUERIES

pytestmark = pytest.mark.usefixtures("warm_cache")


def answer(truth: str, a: float, *, known: float = 0.9, name: str = "x.jpg") -> Answer:
    """A photo with answer `a` at this probability, and `b` otherwise."""
    probabilities, errors = {"a": a, "b": 1 - a}, {"a": 1 - a, "b": a}
    return answer_of(name, Prediction(probabilities, errors, {"a": 0.5, "b": 0.5}, known, known < 0.5), truth=truth)


COUNTED = LabelledScore(
    classes=("a", "b"),
    known=(answer("a", 0.9), answer("a", 0.7), answer("a", 0.2), answer("b", 0.95, known=0.4, name="<b>.jpg")),
    unknown=(answer("c", 0.6, known=0.3), answer("c", 0.6, known=0.6)),
    examples=(),
    broken=(),
)


EXPECTED = {"false_rejections": 0.05, "caught": 0.5, "auroc": 0.9}


def test_every_number_equals_the_count_by_hand() -> None:
    score = COUNTED.record("", "", EXPECTED, {})
    assert (score.photos, score.accuracy, score.confusion) == (4, 0.5, [[2, 1], [1, 0]])
    counts = [(each.photos, each.right, each.recall, each.precision) for each in score.per_class.values()]
    assert counts == [(3, 2, 0.666667, 0.666667), (1, 0, 0, 0)]
    assert [wrong.probability for wrong in score.wrong] == [0.95, 0.8]  # the most confident one is first
    bins = [(each.photos, each.said, each.right) for each in score.reliability]
    assert bins == [(1, 0.7, 1), (1, 0.8, 0), (2, 0.925, 0.5)]
    assert score.calibration_error == pytest.approx((0.3 + 0.8 + 2 * (0.925 - 0.5)) / 4)
    assert (score.false_rejections, score.true_positive_rate) == (0.25, 0.5)
    assert score.auroc == pytest.approx((3 + 3 + 0 + 1) / 8)


def test_class_without_queries_has_no_recall_or_precision() -> None:
    score = LabelledScore(("a", "b"), (answer("a", 0.9),), (), (), ()).record("", "", EXPECTED, {})
    assert score.calibration_error == pytest.approx(0.1)
    empty = score.per_class["b"]
    assert (empty.recall, empty.precision, score.true_positive_rate, score.auroc) == (None,) * 4


@pytest.mark.parametrize("right", [0, 1, 5, 19, 20])
def test_wilson_interval_contains_the_values_that_the_score_test_accepts(right: int) -> None:
    """The bounds are the shares p that differ from the measured share by Z standard errors of p."""
    for end in wilson(right, 20):
        assert 0 <= end <= 1
        assert abs(right / 20 - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / 20), abs=1e-9)


def test_output_files_list_every_photo_and_escape_markup() -> None:
    rows = list(csv.DictReader("".join(lines(".csv", COUNTED.records, COUNTED.classes, "truth")).splitlines()))
    assert [row["label"] for row in rows] == ["a", "a", "b", "a", "a", "a"]
    assert float(rows[2]["probability of b"]) == 0.8
    numbers = {"false_rejections": 0.05, "caught": math.nan, "auroc": math.nan}
    score = COUNTED.record("a & b", "c", numbers, {})
    page = "".join(score_page(score, COUNTED.records, "frn score", {}))
    assert "&lt;b&gt;.jpg" in page
    assert "<b>.jpg" not in page
    assert "a &amp; b" in page
    assert "labelled unknown (40% known; nearest: a)" in page
    assert "95%" not in page.partition("Wrong answers")[2], "the probability of a rejected class"


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """The sample queries by class, including one example, a broken file, and a class that is not enrolled."""
    for query in QUERIES.iterdir():
        home = tmp_path / "labelled" / query.stem.rpartition(" ")[0]
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(query, home)
    example = next((MOTHS / "eyed footman").iterdir())
    shutil.copy(example, tmp_path / "labelled" / "eyed footman" / "under another name.jpg")
    (tmp_path / "labelled" / "eyed footman" / "broken.jpg").write_bytes(b"no picture")
    (tmp_path / "labelled" / "noise").mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "labelled" / "noise" / "1.png")
    return tmp_path / "labelled"


def test_score_command_reports_everything(labelled: Path, tmp_path: Path) -> None:
    files = ["--out", tmp_path / "s.csv", "--report", tmp_path / "s.html"]
    told = frn("score", MOTHS, labelled, "--json", *files)
    assert told.exit_code == 1  # one file is unreadable
    found = json.loads(told.stdout)
    assert (found["photos"], found["examples_skipped"], found["unknown"], len(found["broken"])) == (18, 1, 1, 1)
    right = sum(entry["right"] for entry in found["per_class"].values())
    assert found["accuracy"] == pytest.approx(right / 18, abs=1e-6)
    assert right >= 15
    assert found["interval"][0] < found["accuracy"] <= found["interval"][1]
    assert np.sum(found["confusion"]) == 18
    assert found["true_positive_rate"] == 1.0
    assert len((tmp_path / "s.csv").read_text(encoding="utf-8").splitlines()) == 1 + 20  # with the unreadable photo
    page = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert page.count("data:image/jpeg") == len(found["wrong"])

    (labelled / "eyed footman" / "broken.jpg").unlink()
    shown = frn("score", MOTHS, labelled)
    assert shown.exit_code == 0
    assert f"accuracy {found['accuracy']:.1%} (" in shown.stdout


def test_photos_in_a_folder_unknown_should_be_rejected(tmp_path: Path, labelled: Path) -> None:
    (labelled / "eyed footman" / "broken.jpg").unlink()
    classes = Path(shutil.copytree(MOTHS, tmp_path / "classes"))
    before = json.loads(frn("score", classes, labelled, "--json").stdout)
    shutil.copytree(MOTHS / "bordered footman", labelled / "None of these")
    shutil.move(classes / "bordered footman", tmp_path / "bordered footman")
    told = frn("score", classes, labelled, "--json")
    assert json.loads(told.stdout)["unknown"] >= 5
    assert "'None of these' is not a class: its 5 photos belong to no class" in told.stderr
    assert before["unknown"] < json.loads(told.stdout)["unknown"]


def test_folders_that_cannot_be_scored_are_reported(tmp_path: Path, labelled: Path) -> None:
    classifier, _ = load_classifier(MOTHS, "conv4")
    with pytest.raises(FrnError, match=r"no folder of the photos \(jay\) is named after a class \(banded"):
        score_labelled(classifier, {"jay": []})
    with pytest.raises(FrnError, match="5 are examples, 0 are near copies"):
        score_labelled(classifier, {"eyed footman": sorted((MOTHS / "eyed footman").iterdir())})


def test_every_photo_is_scored_or_listed_with_the_reason(tmp_path: Path) -> None:
    classifier, _ = load_classifier(MOTHS, "conv4")
    example, query = (sorted((MOTHS / "eyed footman").iterdir())[0], PHOTO)
    near, broken = tmp_path / "near.png", tmp_path / "broken.jpg"
    with Image.open(example) as image:
        image.resize((image.width // 2, image.height // 2)).save(near)
    broken.touch()
    seen: list[tuple[int, int]] = []
    photos = {"eyed footman": [example, near, broken], "owl": [query]}
    with pytest.raises(FrnError, match="1 are examples, 1 are near copies of an example, 1 cannot be read"):
        score_labelled(classifier, {"eyed footman": photos["eyed footman"]})
    photos["eyed footman"].append(query)
    found = score_labelled(classifier, photos, progress=lambda *done: seen.append(done))
    assert ([each.image for each in found.known], [each.truth for each in found.unknown]) == ([str(query)], ["owl"])
    assert (found.examples, [path for path, _ in found.broken]) == ([example], [broken])
    assert [str(each) for each in found.near_copies] == [
        f"{near}: skipped as a near copy of {example} (class 'eyed footman')"
    ]
    assert seen == [(done, 5) for done in range(1, 6)]
    assert any("the folder has no photo of the classes 'banded footman', " in note for note in found.notes)


def test_blanks_around_folder_names_are_ignored(tmp_path: Path) -> None:
    """This holds for photos to be scored, and for a class without a readable photo."""
    photo = PHOTO
    shutil.copytree(MOTHS / "eyed footman", tmp_path / "classes" / " eyed footman")
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
    told = frn("score", MOTHS, labelled, "--model", "conv4").stderr.splitlines()
    assert told[0].startswith(f"warning: {labelled / 'eyed footman' / 'broken.jpg'}: is not an image")
    assert told[-1] == "error: 1 of 21 images could not be read"


def test_answers_are_described_with_their_probability_or_as_unknown() -> None:
    assert answer("a", 0.9).called == "a (90%)"
    assert answer("a", 0.2).called == "b (80%)"
    assert answer("a", 0.9, known=0.5).called == "a (90%)"  # it is at the threshold
    assert answer("a", 0.9, known=0.49).called == "unknown (49% known; nearest: a)"


def test_rows_have_six_decimals_and_every_probability() -> None:
    scored = LabelledScore(("a", "b"), (answer("b", 2 / 3, known=1 / 3),), (), (), ())
    head, row = "".join(lines(".csv", scored.records, scored.classes, "truth")).splitlines()
    assert head == "image,truth,label,probability,known,unknown,explained,error,probability of a,probability of b"
    assert row == "x.jpg,b,a,0.666667,0.333333,True,0.5,,0.666667,0.333333"
