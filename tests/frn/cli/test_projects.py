"""`frn enroll`, and the commands that open its projects."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from frn_export.graphs.backbone import features_graph
from PIL import Image
from typer.testing import Result

from frn.estimator.few_shot import FewShotClassifier
from frn.models.zoo import DEFAULT_MODEL
from tests import processes
from tests.commands import frn
from tests.drawings import DRAWINGS
from tests.models import small_model


@pytest.fixture(scope="module")
def extractor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("extractor") / "features.onnx"
    path.write_bytes(features_graph(small_model()).SerializeToString())
    return path


@pytest.fixture
def birds(moths: Path, tmp_path: Path) -> Path:
    """Five class folders of four photos, which a test may modify."""
    later = shutil.ignore_patterns(*(f"{number:02d}.png" for number in range(4, 12)))
    return Path(shutil.copytree(moths / "test", tmp_path / "meine Vögel 🐦", ignore=later))


def answers(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_project_gives_the_same_answers_as_its_folder(
    birds: Path, moths: Path, extractor: Path, tmp_path: Path
) -> None:
    project = tmp_path / "sub" / "birds.frn.json"
    result = frn("enroll", birds, "--model", extractor, "--out", project, "--json")
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["classes"]["moth 41"]["images"] == 4
    assert len(summary["classes"]["moth 41"]["explained"]) == 4
    query = moths / "val" / "moth 20"
    by_folder = frn("classify", birds, query, "--model", extractor, "--json")
    by_project = frn("classify", project, query, "--json")  # the project remembers its model
    assert answers(by_project) == answers(by_folder)
    assert 0 < summary["threshold"] < 1


def test_missing_photos_are_not_used_and_changed_ones_are_reported(
    birds: Path, moths: Path, extractor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, again, query = tmp_path / "b.frn.json", tmp_path / "c.frn.json", moths / "val" / "moth 20" / "00.png"
    frn("enroll", birds, "--model", extractor, "--out", project)
    before = answers(frn("classify", project, query, "--json"))
    (birds / "moth 40" / "00.png").unlink()
    missing = frn("classify", project, query, "--json")
    assert "class 'moth 40': 1 of 4 photos is missing and not used. The first: " in missing.stderr
    assert answers(missing) == answers(frn("classify", birds, query, "--model", extractor, "--json")) != before
    enrolled = frn("enroll", project, "--out", again, "--json")
    assert json.loads(enrolled.stdout)["classes"]["moth 40"]["images"] == 3
    assert len(json.loads(again.read_text())["classes"][0]["images"]) == 4  # it counts when it comes back
    monkeypatch.setenv("FRN_CACHE", str(tmp_path / "another, empty cache"))
    assert frn("classify", project, query, "--json").stdout == missing.stdout
    shutil.copy(moths / "val" / "moth 21" / "03.png", birds / "moth 41" / "00.png")
    changed = frn("classify", project, query, "--json")
    assert "class 'moth 41': 1 of 4 photos has changed since it was added; its current content" in changed.stderr
    assert answers(changed)[0]["errors"] != answers(missing)[0]["errors"]
    shutil.rmtree(birds / "moth 40")
    (rest,) = answers(frn("classify", project, query, "--json"))
    assert list(rest["probabilities"]) == [f"moth {n}" for n in range(41, 45)]  # type: ignore[call-overload]
    shutil.rmtree(birds)
    away = frn("classify", project, query, "--json")
    assert away.exit_code == 1
    assert "error: all 20 example photos are missing. The first: " in away.stderr


def test_a_different_model_is_refused_and_the_suggested_command_works(
    birds: Path, moths: Path, extractor: Path, tmp_path: Path
) -> None:
    project, query = tmp_path / "b.frn.json", moths / "val" / "moth 20" / "00.png"
    frn("enroll", birds, "--model", extractor, "--out", project)
    result = frn("classify", project, query, "--model", "conv4")
    assert result.exit_code == 1
    assert "b.frn.json: was made with" in result.stderr
    assert "but conv4 is a different model" in result.stderr
    assert frn("enroll", project, "--model", "conv4", "--replace", "--out", project).exit_code == 0
    assert frn("classify", project, query, "--model", "conv4").exit_code == 0
    assert project.with_name("b.frn.json.bak").is_file()


def test_a_project_enrolled_again_keeps_everything_else(birds: Path, extractor: Path, tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{name}.frn.json" for name in "abc")
    frn("enroll", birds, "--model", extractor, "--out", first)
    document = json.loads(first.read_text())
    document["classes"][0]["id"] = 40
    document["classes"][1]["colour"] = "red"
    document["others"] = [{**document["classes"][2]["images"].pop(), "note": "a leaf"}]
    document |= {"threshold": 0.25, "next_id": 50, "window": "left"}
    document["model"]["tta"] = "hflip"
    document["classes"].append({"id": 41, "name": "empty", "images": []})
    first.write_text(json.dumps(document))
    assert frn("enroll", first, "--out", second).exit_code == 0
    again = json.loads(second.read_text())
    assert again.pop("head") != document.pop("head")  # chosen for the mirrored maps
    assert again == document
    query = birds / "moth 40" / "00.png"
    listed = frn("classify", second, query, "--json")
    assert listed.exit_code == 0
    assert "class 'empty' has no photos" in listed.stderr
    assert answers(listed) == answers(frn("classify", second, query, "--model", extractor, "--json"))
    assert answers(listed) != answers(frn("classify", second, query, "--tta", "none", "--json"))
    assert frn("enroll", first, "--model", "conv4", "--out", third).exit_code == 0
    other = json.loads(third.read_text())
    assert (other["model"]["id"], other["model"]["tta"], other["threshold"]) == ("conv4", "hflip", None)
    assert (other["classes"][1]["colour"], other["others"][0]["note"]) == ("red", "a leaf")


def test_a_project_without_photos_is_refused_in_one_line(birds: Path, extractor: Path, tmp_path: Path) -> None:
    project = tmp_path / "b.frn.json"
    frn("enroll", birds, "--model", extractor, "--out", project)
    document = json.loads(project.read_text())
    project.write_text(json.dumps({**document, "classes": [{"id": 1, "name": "a", "images": []}]}))
    result = frn("classify", project, birds / "moth 40")
    assert result.exit_code == 1
    assert result.stderr.strip() == f"error: {project}: has no class with a photo"


def test_a_changed_zip_is_read_again(birds: Path, moths: Path, extractor: Path, tmp_path: Path) -> None:
    packed = Path(shutil.make_archive(str(tmp_path / "birds"), "zip", birds))
    project, query = tmp_path / "b.frn.json", moths / "val" / "moth 20" / "00.png"
    frn("enroll", packed, "--model", extractor, "--out", project)
    before = answers(frn("classify", project, query, "--json"))
    shutil.copy(moths / "val" / "moth 21" / "03.png", birds / "moth 41" / "00.png")
    shutil.make_archive(str(tmp_path / "birds"), "zip", birds)
    changed = frn("classify", project, query, "--json")
    assert (
        "class 'moth 41': 1 of 4 photos has changed since it was added; its current content is used" in changed.stderr
    )
    assert answers(changed)[0]["errors"] != before[0]["errors"]
    packed.unlink()
    assert "all 20 example photos are missing" in frn("classify", project, query, "--json").stderr


def test_classes_come_from_named_folders(birds: Path, extractor: Path, tmp_path: Path) -> None:
    words = [f"jay={birds / 'moth 40'}", f"a=b={birds / 'moth 41'}"]
    result = frn("enroll", words[0], "--model", extractor, "--out", tmp_path / "x.frn.json", "--json")
    assert list(json.loads(result.stdout)["classes"]) == ["jay"]
    wrong = frn("enroll", words[1], "--model", extractor, "--out", tmp_path / "y.frn.json")
    assert wrong.exit_code == 1
    assert "cannot be listed" in wrong.stderr
    twice = frn("enroll", words[0], words[0], "--model", extractor, "--out", tmp_path / "y.frn.json")
    assert "class 'jay' occurs twice" in twice.stderr


@pytest.mark.parametrize(("model", "most"), [("conv4", 2), (DEFAULT_MODEL, 3)])
def test_photos_of_other_objects_are_unknown(model: str, most: int, tmp_path: Path) -> None:
    samples = DRAWINGS
    noise = np.random.default_rng(0).integers(0, 256, (84, 84, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    (stranger,) = answers(frn("classify", samples / "moths", tmp_path / "noise.png", "--json", "--model", model))
    assert stranger["unknown"] is True
    shown = frn("classify", samples / "moths", tmp_path / "noise.png", "--model", model).stdout
    assert f"unknown ({stranger['known']:.0%} known; nearest: {stranger['label']})" in shown
    (kept,) = answers(
        frn("classify", samples / "moths", tmp_path / "noise.png", "--json", "--model", model, "--threshold", 0)
    )
    assert kept["unknown"] is False
    known = answers(frn("classify", samples / "moths", samples / "queries", "--json", "--model", model))
    assert sum(bool(answer["unknown"]) for answer in known) <= most


def test_explain_draws_parts_or_error_maps_and_prints_their_values(
    birds: Path, moths: Path, extractor: Path, tmp_path: Path
) -> None:
    query = moths / "val" / "moth 20" / "00.png"
    result = frn("explain", birds, query, "--model", extractor, "--out", tmp_path / "map ü.png", "--json")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    (line,) = answers(frn("classify", birds, query, "--model", extractor, "--json"))
    assert (answer["label"], answer["errors"]) == (line["label"], line["errors"])
    assert answer["explained_by"][answer["label"]] == line["explained"]
    for name, error_map in answer["error_maps"].items():
        assert np.shape(error_map) == (4, 4)
        assert np.mean(error_map) == pytest.approx(answer["errors"][name], rel=1e-4)
    against = max(answer["errors"], key=answer["errors"].__getitem__)
    words = ("--model", extractor, "--json", "--replace", "--against", against)
    other = json.loads(frn("explain", birds, query, *words, "--out", tmp_path / "map ü.png", "--maps").stdout)
    assert (other["against"], other["label"]) == (against, answer["label"])
    with Image.open(tmp_path / "map ü.png") as picture:
        assert picture.size[0] > 3 * 252
    assert "must end in .png" in frn("explain", birds, query, "--out", tmp_path / "map.txt").stderr
    broken = frn("explain", birds, tmp_path / "none.png", "--out", tmp_path / "no.png")
    assert (broken.exit_code, broken.stderr.count("\n")) == (1, 1)


def test_evaluation_in_onnxruntime_gives_the_same_result_as_in_torch(
    moths: Path, extractor: Path, tmp_path: Path
) -> None:
    from frn.models.model import save_model

    save_model(small_model(), tmp_path / "m.safetensors")
    words = ["--data", moths, "--queries", 5, "--episodes", 300, "--json", "--threads", 1]
    found = [
        [result["accuracy"] for result in json.loads(frn("eval", model, *words).stdout)["results"]]
        for model in (tmp_path / "m.safetensors", extractor)
    ]
    np.testing.assert_allclose(found[0], found[1], atol=0.02)


STOPPED = """
import os, signal, sys
from frn.__main__ import run

replace = os.replace

def stopping(one, other):
    if str(other).endswith(".frn.json"):
        os.kill(os.getpid(), signal.SIGSTOP)
    replace(one, other)

os.replace = stopping
sys.argv[0] = "frn"
run()
"""
"""`frn enroll`, suspended (as with Ctrl-Z) while it writes its project."""


@pytest.mark.skipif(os.name == "nt", reason="no SIGSTOP")
@pytest.mark.parametrize(
    "waits_for", ["ctrl-c", pytest.param("its end", marks=pytest.mark.campaign)], ids=["ctrl-c", "a minute"]
)
def test_enroll_names_the_stopped_program_that_holds_the_lock(birds: Path, tmp_path: Path, waits_for: str) -> None:
    words = ["enroll", birds, "--model", "conv4", "--out", tmp_path / "x.frn.json"]
    with processes.started([sys.executable, "-c", STOPPED, *words]) as first:
        assert os.WIFSTOPPED(os.waitpid(first.pid, os.WUNTRACED)[1])
        began = time.monotonic()
        with processes.started(
            [sys.executable, "-m", "frn", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as second:
            assert second.stderr is not None
            warning = second.stderr.readline()
            assert f"waiting for process {first.pid} (frn enroll" in warning
            if waits_for == "ctrl-c":
                second.send_signal(signal.SIGINT)
            said, told = second.communicate(timeout=processes.SECONDS)
        if waits_for == "ctrl-c":
            assert (second.returncode, said, len(told.splitlines())) == (130, "", 1), told
        else:
            assert 60 <= time.monotonic() - began < 100
            assert second.returncode == 1
            assert re.search(
                rf"error: .*process {first.pid} .* is still writing this file. Wait until it ends", told
            ), told
        assert not (tmp_path / "x.frn.json").exists()
        first.send_signal(signal.SIGCONT)
        assert first.wait(processes.SECONDS) == 0
    assert frn("classify", tmp_path / "x.frn.json", next(birds.rglob("*.png"))).exit_code == 0


@pytest.mark.parametrize("classes", [1, 3])
def test_every_door_says_that_one_photo_of_each_class_cannot_check_probabilities(
    classes: int, birds: Path, tmp_path: Path
) -> None:
    said = "one photo of each class cannot show how sure answers should be"
    few, project, report = tmp_path / "few", tmp_path / "b.frn.json", tmp_path / "report.html"
    for home in sorted(birds.iterdir())[:classes]:
        (few / home.name).mkdir(parents=True)
        shutil.copy(sorted(home.iterdir())[0], few / home.name)
    words = ["--model", "conv4"]
    assert said in frn("enroll", few, *words, "--out", project).stdout
    again = json.loads(frn("enroll", few, *words, "--out", project, "--replace", "--threshold", 0.5, "--json").stdout)
    assert said in again["expected"]["text"]
    assert again["expected"]["false_rejections"] is None
    assert said in frn("enroll", project, "--out", tmp_path / "c.frn.json").stdout  # with a threshold of its own
    (photo,) = sorted(birds.glob("*/*"))[1:2]
    answered = frn("classify", project, photo, "--json", "--report", report)
    assert said in answered.stderr
    assert said in report.read_text()
    assert json.loads(answered.stdout)["known"] is None
    scored = frn("score", project, birds, "--report", report, "--replace")
    assert said in scored.stdout + scored.stderr, scored.output
    assert said in report.read_text()
    assert said in FewShotClassifier("conv4", device="cpu").fit(few).expected_
