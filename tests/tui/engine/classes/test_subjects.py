"""A project that searches photos for their subject has the same answers in the app as on the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frn_tui.client.protocol import parse
from frn_tui.engine.worker_queues import serve
from onnxruntime import InferenceSession
from PIL import Image

from frn.data.synthetic import draw_moth, species
from frn.images.boxes import Box, box_name, split_box
from frn.inference.find.finder import Finder
from tests.commands import frn
from tests.tui.engine.conftest import Engine, Unwanted

Photos = dict[str, list[tuple[Path, Box]]]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Photos:
    """Photos of 450 x 300 pixels with a moth of 130 somewhere: five of each of two kinds, and where they are."""
    root, draw = tmp_path_factory.mktemp("scenes"), np.random.default_rng(1)
    placed: Photos = {}
    for kind in range(2):
        (root / f"moth {kind}").mkdir()
        for number in range(5):
            noise = draw.integers(0, 256, (10, 14, 3), dtype=np.uint8)
            scene = Image.fromarray(noise).resize((450, 300), Image.Resampling.BICUBIC)
            box = Box(int(draw.integers(320)), int(draw.integers(170)), 130, 130)
            scene.paste(draw_moth(species(kind), draw, 130), box[:2])
            scene.save(path := root / f"moth {kind}" / f"{number}.png")
            placed.setdefault(path.parent.name, []).append((path, box))
    return placed


def run(*words: str | Path) -> str:
    ran = frn(*words)
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def classify(*words: str | Path) -> list[dict[str, Any]]:
    printed = run("classify", *words, "--json")
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def boxed(photos: Photos, boxes: int) -> dict[str, list[Path]]:
    """Return three examples of each class, some of them boxes."""
    return {
        name: [Path(box_name(str(path), box)) if n < boxes else path for n, (path, box) in enumerate(own[:3])]
        for name, own in photos.items()
    }


@pytest.mark.parametrize(
    ("boxes", "app_first"), [(0, True), (1, True), pytest.param(1, False, marks=pytest.mark.nightly)]
)
def test_the_app_answers_as_the_command_line(
    engine: Engine, photos: Photos, tmp_path: Path, boxes: int, app_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRN_CACHE", str(tmp_path / "cache"))
    state = engine.state(boxed(photos, boxes)) | {"search": "one"}
    project, queries = tmp_path / "moths.frn.json", [own[number][0] for own in photos.values() for number in (1, 3, 4)]
    engine.done("save", path=str(project), state=state, replace=False, origin=None)
    expected = [] if app_first else classify(project, *queries)
    counted: list[tuple[int, int]] = []
    done: dict[str, Any] = {"unranked": True}
    while done["unranked"]:
        enrolled = engine.ask("classes", state=state)
        counted += [(event["done"], event["total"]) for event in enrolled.told("progress")]
        done = enrolled.end["result"]
    assert counted == [(n, 4) for n in range(5) if boxes == 1 and app_first]
    asked = engine.ask("query", paths=[str(path) for path in queries])
    assert [event["done"] for event in asked.told("progress")] == [1, 2, 3, 4, 5, 6]
    answers = asked.told("answer")
    engine.done("save", path=str(project), state=state, replace=False, origin=str(project))
    expected = expected or classify(project, *queries)
    for answer, by_command in zip(answers, expected, strict=True):
        assert answer.get("box") == by_command.get("box")
        names = dict(enumerate(photos, 1))
        chances = {names[score["id"]]: score["probability"] for score in answer["scores"]}
        assert chances == pytest.approx(by_command["probabilities"], abs=1e-5)
        assert answer["known"] == pytest.approx(by_command["known"], abs=1e-5)
        assert answer["unknown"] is by_command["unknown"]
    if boxes and app_first:
        (finder := tmp_path / "a" / "finder.onnx").parent.mkdir()
        finder.write_text("mine")
        wish: dict[str, Any] = {"path": str(finder.with_name("classifier.onnx")), "what": "classifier"}
        assert "already exists" in engine.ask("export", **wish).reason
        assert [*finder.parent.iterdir()] == [finder]
        engine.done("export", **wish, replace=True)
        run("export", "--classes", project, "--out", tmp_path / "b")
        images = np.random.default_rng(0).random((1, 3, 120, 170), dtype=np.float32)
        by_app, by_command = (
            InferenceSession(tmp_path / folder / "finder.onnx").run(None, {"images": images}) for folder in "ab"
        )
        assert all(np.allclose(one, other, atol=1e-4) for one, other in zip(by_app, by_command, strict=True))
    listed = [support["key"] for entry in state["classes"] for support in entry["supports"]]
    assert set(done["boxes"]) == (set(listed) - {listed[0], listed[3]} if boxes == 1 else set())
    assert answers[0]["key"] == listed[1]  # an example, whatever was found in it
    assert [len(report["explained"]) for report in done["reports"]] == [3, 3]
    assert all(set(report["explained"]) <= set(listed) for report in done["reports"])


def test_all_subjects_of_each_photo_are_found(engine: Engine, photos: Photos, tmp_path: Path) -> None:
    state = engine.state(boxed(photos, 3)) | {"search": "all"}
    while engine.done("classes", state=state)["unranked"]:
        pass
    wide = Image.new("RGB", (900, 300))
    for kind, name in enumerate(photos):
        wide.paste(Image.open(photos[name][3][0]), (450 * kind, 0))
    wide.save(path := tmp_path / "both.png")
    (answer,) = engine.ask("query", paths=[str(path)]).told("answer")
    engine.done("save", path=str(project := tmp_path / "x.frn.json"), state=state, replace=False, origin=None)
    expected = classify(project, path)
    names = dict(enumerate(photos, 1))
    assert [(names[one["id"]], one["box"]) for one in answer["subjects"]] == [(e["label"], e["box"]) for e in expected]
    assert len(answer["subjects"]) >= 2
    both = engine.ask("query", paths=[str(path), str(photos["moth 0"][4][0]), str(project)]).told("answer")
    assert both[0]["subjects"] == answer["subjects"]
    assert both[1]["subjects"]
    assert "subjects" not in both[2]  # it is no photo


def test_a_bundle_of_a_project_that_searches_has_whole_photos_with_their_boxes(
    engine: Engine, photos: Photos, tmp_path: Path
) -> None:
    state = engine.state(boxed(photos, 1)) | {"search": "one"}
    engine.done("bundle", path=str(tmp_path / "x.zip"), state=state)
    project = engine.done("unpack", path=str(tmp_path / "x.zip"), folder=str(tmp_path / "y"))
    loaded = engine.done("load", path=project)["state"]
    examples = [support for entry in loaded["classes"] for support in entry["supports"]]
    given = [support for entry in state["classes"] for support in entry["supports"]]
    assert loaded["search"] == "one"
    assert [each["key"] for each in examples] == [each["key"] for each in given]
    for each, before in zip(examples, given, strict=True):
        assert Path(each["path"]).name == Path(before["path"]).name
        assert split_box(each["path"])[0].read_bytes() == split_box(before["path"])[0].read_bytes()


def test_a_photo_of_no_class_keeps_its_box(engine: Engine, photos: Photos, monkeypatch: pytest.MonkeyPatch) -> None:
    photo, _ = photos["moth 1"][4]
    state = engine.state(boxed(photos, 3) | {"others": [Path(box_name(str(photo), Box(5, 6, 100, 90)))]})
    state |= {"search": "one", "others": state["classes"].pop()["supports"]}
    engine.done("classes", state=state)
    (answer,) = engine.ask("query", paths=[str(photo)]).told("answer")
    assert (answer["box"], answer["key"]) == ([5, 6, 100, 90], state["others"][0]["key"])
    for name in ("maps", "look"):
        monkeypatch.setattr(Finder, name, pytest.fail)
    sent: list[Any] = []
    request = parse({"op": "query", "paths": [str(photos["moth 0"][4][0])]})
    serve(engine.handlers["query"], Unwanted(1, request, sent.append))
    assert sent == [{"id": 1, "end": "cancelled"}]  # before the network runs


def test_subjects_are_tried_with_the_open_model(engine: Engine, photos: Photos) -> None:
    state = engine.state(boxed(photos, 3))
    first = engine.done("choose_search", state=state)
    few = {name: paths[:size] for (name, paths), size in zip(boxed(photos, 1).items(), (2, 1), strict=True)}
    asked = engine.ask("choose_search", state=engine.state(few))
    assert {event["total"] for event in asked.told("progress")} == {1 + 2}  # without a box, and left out
    engine.done("open_model", model="resnet12-small")
    assert engine.done("choose_search", state=engine.state(boxed(photos, 3))) != first
    engine.done("open_model", model="conv4")
    assert engine.done("choose_search", state=state) == first
