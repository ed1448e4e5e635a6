"""Embedding photos, and facts about enrolled classes."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from frn_tui.engine.classes.enrolled_classes import EnrolledClasses
from frn_tui.engine.operations import build_handlers
from PIL import Image

from frn.features.extractor import Extractor
from frn.features.feature_cache import FeatureStore
from frn.images.opening import open_image
from frn.inference.classifier import Classifier
from frn.models.zoo import shipped_extractors
from tests.tui.engine.conftest import Engine, first


def test_embedding_reports_every_file_in_order(engine: Engine, members: dict[str, list[Path]], tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_text("no image")
    paths = [*map(str, members["moth 40"][:5]), str(broken), str(members["moth 41"][0])]
    asked = engine.ask("embed", paths=paths)
    assert [event["path"] for event in asked.told("embedded")] == paths
    assert "is not an image" in asked.told("embedded")[5]["reason"]
    assert asked.told("embedded")[0]["size"] == members["moth 40"][0].stat().st_size
    assert [(event["done"], event["total"]) for event in asked.told("progress")] == [(4, 7), (7, 7)]


def test_classes_give_the_same_answers_as_the_library(engine: Engine, members: dict[str, list[Path]]) -> None:
    library = Classifier(Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1))
    library.enroll(first(members, 5))
    done = engine.done("classes", state=engine.state(first(members, 5)))
    assert done["threshold"] == pytest.approx(library.threshold)
    assert [*done["known"].values()] == pytest.approx(library.calibration.known.tolist(), rel=1e-4)
    assert done["unread"] == done["away"] == []
    for report, shares in zip(done["reports"], library.leave_one_out.values(), strict=True):
        assert list(report["explained"].values()) == pytest.approx(shares.tolist())
    query = members["moth 42"][9]
    ((_, expected),) = library.classify([query])
    assert not isinstance(expected, Exception)
    asked = engine.ask("query", paths=[str(query)])
    (answer,) = asked.told("answer")
    names = [*members]
    assert {names[s["id"] - 1]: s["error"] for s in answer["scores"]} == pytest.approx(expected.errors, rel=1e-5)
    assert {names[s["id"] - 1]: s["explained"] for s in answer["scores"]} == pytest.approx(expected.explained, rel=1e-5)
    assert sum(s["probability"] for s in answer["scores"]) == pytest.approx(1)
    assert names[answer["scores"][0]["id"] - 1] == expected.label
    assert answer["unknown"] == expected.unknown
    assert np.mean(answer["maps"][str(answer["scores"][0]["id"])]) == pytest.approx(answer["scores"][0]["error"])


def test_ranks_equal_leave_one_out_computed_by_hand(engine: Engine, members: dict[str, list[Path]]) -> None:
    few = first(members, 3)
    reports = engine.done("classes", state=engine.state(few))["reports"]
    classes: EnrolledClasses = engine.handlers["classes"].__self__  # type: ignore[attr-defined]
    extractor = Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1)
    library = Classifier(extractor)
    for (name, paths), report in zip(few.items(), reports, strict=True):
        for left, path in enumerate(paths):
            library.enroll({**few, name: paths[:left] + paths[left + 1 :]})
            ((_, prediction),) = library.classify([path])
            assert not isinstance(prediction, Exception)
            expected = sum(error < prediction.errors[name] for error in prediction.errors.values())
            assert [*report["rank"].values()][left] == expected
            key = [*report["rank"]][left]
            assert (key in report["rival"]) == (expected > 0)
            if expected:
                rival, lead, likely, chance = report["rival"][key]
                assert [*few][rival - 1] == prediction.label
                (answer,) = engine.ask("query", paths=[str(path)]).told("answer")
                shares = {score["id"]: score["explained"] for score in answer["scores"]}
                assert lead == pytest.approx(shares[rival] - shares[report["id"]], rel=1e-4)
                chances = {score["id"]: score["probability"] for score in answer["scores"]}
                assert chance == pytest.approx(chances[rival], rel=1e-3)
                mean = classes.models.known(key).mean(0, dtype=np.float64)
                away = classes.current.scorer.distances(mean[None, None], [key])[0].tolist()
                nearer = away.pop(report["id"] - 1) - min(away)
                assert 0 < (likely - lead) / nearer < 1  # distances count less than errors


def test_classes_after_an_edit_and_its_undo_equal_classes_enrolled_at_once(
    engine: Engine, members: dict[str, list[Path]]
) -> None:
    before = engine.done("classes", state=engine.state(first(members, 3)))
    engine.done("classes", state=engine.state(first(members, 4)))  # every class changes
    more = {**first(members, 3), "moth 42": members["moth 42"][:4]}
    after = engine.done("classes", state=engine.state(more))
    fresh = Engine(build_handlers(os.getpid()))
    fresh.done("open_model", model="conv4")
    assert fresh.done("classes", state=fresh.state(more))["reports"] == after["reports"]
    assert engine.done("classes", state=engine.state(first(members, 3)))["reports"] == before["reports"]


def test_classes_and_maps_in_memory_are_reused(
    engine: Engine, members: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = engine.state(first(members, 3))
    before = engine.done("classes", state=state)
    for name in ("enroll", "left_out_location_error"):
        monkeypatch.setattr(f"frn.inference.enrollment.{name}", pytest.fail)
    monkeypatch.setattr("frn.inference.enrollment.tune_classes", pytest.fail)
    monkeypatch.setattr(FeatureStore, "get", lambda *_: pytest.fail("read from the disk"))
    assert engine.done("classes", state=state) == before
    renamed = {**state, "classes": [{**entry, "name": f"new {entry['name']}"} for entry in state["classes"]]}
    assert engine.done("classes", state=renamed) == before


def test_photos_in_two_classes_refer_to_each_other_and_are_not_used(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    image = open_image(members["moth 40"][0]).resize((96, 96))
    for quality, name in ((95, "a.jpg"), (90, "b.jpg")):
        image.save(tmp_path / name, quality=quality)
    classes = {"x": [tmp_path / "a.jpg", *members["moth 41"][:2]], "y": [members["moth 42"][0], tmp_path / "b.jpg"]}
    state = engine.state(classes)
    a, b = state["classes"][0]["supports"][0]["key"], state["classes"][1]["supports"][1]["key"]
    reports = engine.done("classes", state=state)["reports"]
    assert [report["near"] for report in reports] == [{a: b}, {b: a}]
    assert list(reports[0]["explained"]) == [support["key"] for support in state["classes"][0]["supports"][1:]]
    assert reports[1]["explained"] == {}
    only = engine.state({"x": [tmp_path / "a.jpg"], "y": [tmp_path / "b.jpg"]})
    assert engine.done("classes", state=only)["reports"] == []
    assert "every example is in two classes" in engine.ask("query", paths=["x"]).reason


def test_near_copies_in_a_class_count_once_as_in_the_library(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    copied, classes = tmp_path / "copy.png", first(members, 3)
    open_image(members["moth 40"][1]).transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(copied)
    classes["moth 40"].append(copied)
    library = Classifier(Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1))
    library.enroll(classes)
    state = engine.state(classes)
    done = engine.done("classes", state=state)
    assert done["threshold"] == pytest.approx(library.threshold)
    keys = [support["key"] for support in state["classes"][0]["supports"]]
    assert done["reports"][0]["near"] == {keys[1]: keys[3], keys[3]: keys[1]}
    assert list(done["reports"][0]["explained"].values()) == pytest.approx(library.leave_one_out["moth 40"].tolist())


def test_classes_without_examples_do_not_appear_in_answers(engine: Engine, members: dict[str, list[Path]]) -> None:
    state = engine.state({"empty": [], **first(members, 1)})
    reports = engine.done("classes", state=state)["reports"]
    assert {report["id"] for report in reports} == {2, 3, 4, 5, 6}
    (answer,) = engine.ask("query", paths=[str(members["moth 40"][5])]).told("answer")
    assert {score["id"] for score in answer["scores"]} == {2, 3, 4, 5, 6}
    for threshold in (None, 0.3):
        none = engine.done("classes", state=engine.state({"empty": []}, threshold))
        assert (none["threshold"], none["unread"], none["unranked"]) == (threshold or 0.0, [], 0)
    assert "no class has an example" in engine.ask("query", paths=["x"]).reason


def test_the_threshold_in_the_state_takes_effect(engine: Engine, members: dict[str, list[Path]]) -> None:
    for threshold, unknown in ((0.0, False), (1.0, True)):
        state = engine.state(first(members, 2), threshold)
        done = engine.done("classes", state=state)
        assert done["threshold"] == threshold
        (answer,) = engine.ask("query", paths=[str(members["moth 40"][5])]).told("answer")
        assert answer["unknown"] is unknown


def test_missing_maps_are_reported_and_classes_stay_unchanged(engine: Engine, members: dict[str, list[Path]]) -> None:
    state = engine.state(first(members, 2))
    engine.done("classes", state=state)
    strange = json.loads(json.dumps(state))
    strange["classes"][0]["supports"][0]["key"] = "f" * 32
    refused = engine.done("classes", state=strange)
    place = strange["classes"][0]["supports"][0]["path"]
    assert (refused["unread"], refused["known"], refused["reports"]) == ([place], {}, [])
    (answer,) = engine.ask("query", paths=[str(members["moth 40"][5])]).told("answer")
    assert "scores" in answer


def test_a_photo_that_was_replaced_and_read_again_is_not_the_example(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    (photo := tmp_path / "x.png").write_bytes(members["moth 40"][7].read_bytes())
    state = engine.state({"x": [photo], **first(members, 2)})
    assert engine.done("classes", state=state)["unread"] == []
    photo.write_bytes(members["moth 40"][8].read_bytes())
    engine.ask("embed", paths=[str(photo)])
    assert engine.done("classes", state=state)["unread"] == [str(photo)]


def test_photos_of_no_class_change_the_threshold_as_in_the_library(
    engine: Engine, members: dict[str, list[Path]]
) -> None:
    library = Classifier(Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1))
    strangers = [path for paths in members.values() for path in paths[2:]]
    library.enroll(first(members, 2), strangers)
    (others,) = engine.state({"none": strangers})["classes"]
    state = engine.state(first(members, 2))
    plain, marked = (engine.done("classes", state={**state, **more}) for more in ({}, {"others": others["supports"]}))
    assert marked["threshold"] == pytest.approx(library.threshold)
    assert marked["threshold"] > plain["threshold"]


def test_maps_beyond_the_memory_limit_are_read_from_the_store(
    engine: Engine, members: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frn_tui.engine.models.MAX_CACHED", 20_000)
    assert engine.done("classes", state=engine.state(first(members, 3)))["unread"] == []
