"""Embedding photos, and facts about enrolled classes."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from frn_tui.client.protocol import MAPPED
from frn_tui.engine.classes.enrolled_classes import EnrolledClasses
from frn_tui.engine.operations import build_handlers
from PIL import Image

from frn.features.extractor import Extractor
from frn.features.feature_cache import FeatureStore
from frn.images.opening import open_image
from frn.inference.classifier import Classifier, Prediction
from frn.models.zoo import shipped_extractors
from tests.tui.engine.conftest import Engine, Message, first


def test_embedding_reports_every_file_in_order(engine: Engine, members: dict[str, list[Path]], tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_text("no image")
    paths = [*map(str, members["moth 40"][:5]), str(broken), str(members["moth 41"][0])]
    asked = engine.ask("embed", paths=paths)
    assert [event["path"] for event in asked.told("embedded")] == paths
    assert "is not an image" in asked.told("embedded")[5]["reason"]
    assert asked.told("embedded")[0]["size"] == members["moth 40"][0].stat().st_size
    assert [(event["done"], event["total"]) for event in asked.told("progress")] == [(4, 7), (7, 7)]


def assert_as_in_the_library(
    engine: Engine, classes: dict[str, list[Path]], queries: list[Path] | None = None, others: list[Path] | None = None
) -> Message:
    """Compare threshold, calibration and answers of the engine and of the library; return what the engine reports."""
    library = Classifier(Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1))
    library.enroll(classes, others or [])
    state = engine.state(classes)
    if others:
        state["others"] = engine.state({"none": others})["classes"][0]["supports"]
    done: Message = engine.done("classes", state=state)
    assert (done["unread"], done["away"], done["unranked"]) == ([], [], 0)
    assert done["threshold"] == pytest.approx(library.threshold, rel=1e-5)  # from errors in float32
    assert [*done["known"].values()] == pytest.approx(library.calibration.known.tolist(), rel=1e-3)
    shares = library.leave_one_out
    for name, report in zip(classes, done["reports"], strict=True):
        own = shares[name].tolist() if name in shares else []
        assert list(report["explained"].values()) == pytest.approx(own, rel=1e-5)
        assert len(report["rank"]) == len(own)
    for path, (_, expected) in zip(queries or [], library.classify(queries or []), strict=True):
        assert isinstance(expected, Prediction)
        (answer,) = engine.ask("query", paths=[str(path)]).told("answer")
        names = [[*classes][score["id"] - 1] for score in answer["scores"]]
        for field, wanted in (("error", expected.errors), ("explained", expected.explained)):
            assert dict(zip(names, (score[field] for score in answer["scores"]), strict=True)) == pytest.approx(
                wanted, rel=1e-4
            )
        assert sum(score["probability"] for score in answer["scores"]) == pytest.approx(1)
        assert names == sorted(names, key=expected.errors.__getitem__)
        assert (answer["known"], answer["unknown"]) == (pytest.approx(expected.known, rel=1e-4), expected.unknown)
        for score in answer["scores"][:MAPPED]:
            assert np.mean(answer["maps"][str(score["id"])]) == pytest.approx(score["error"], rel=1e-5)
    return done


def test_classes_give_the_same_answers_as_in_the_library(engine: Engine, members: dict[str, list[Path]]) -> None:
    examples = [members["moth 40"][2], members["moth 43"][0]]  # judged by leave-one-out
    assert_as_in_the_library(engine, first(members, 5), [members["moth 42"][9], *examples])


@pytest.mark.parametrize("sizes", [(1, 2, 3, 2, 1), (1, 1, 1, 1, 1), (2, 2, 2, 2, 2)])
def test_calibration_equals_that_of_the_library_for_any_sizes(
    engine: Engine, members: dict[str, list[Path]], sizes: tuple[int, ...]
) -> None:
    assert_as_in_the_library(
        engine, {name: paths[:size] for (name, paths), size in zip(members.items(), sizes, strict=True)}
    )


def test_near_copies_count_once_and_photos_of_no_class_raise_the_threshold_as_in_the_library(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    copied, classes = tmp_path / "copy.png", first(members, 3)
    open_image(members["moth 40"][1]).transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(copied)
    classes["moth 40"].append(copied)
    plain = assert_as_in_the_library(engine, classes)
    near = plain["reports"][0]["near"]
    assert len(near) == 2
    assert near == {copy: photo for photo, copy in near.items()}
    marked = assert_as_in_the_library(engine, classes, others=[path for own in members.values() for path in own[3:]])
    assert marked["threshold"] > plain["threshold"]


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


def test_classes_without_examples_do_not_appear_in_answers(engine: Engine, members: dict[str, list[Path]]) -> None:
    state = engine.state({"empty": [], **first(members, 1)})
    reports = engine.done("classes", state=state)["reports"]
    assert {report["id"] for report in reports} == {2, 3, 4, 5, 6}
    (answer,) = engine.ask("query", paths=[str(members["moth 40"][5])]).told("answer")
    assert {score["id"] for score in answer["scores"]} == {2, 3, 4, 5, 6}
    for threshold in (None, 0.3):
        none = engine.done("classes", state=engine.state({"empty": []}, threshold))
        assert (none["threshold"], none["unread"], none["unranked"]) == (threshold or 0.0, [], 0)
    assert none["expected"] == ""
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


def test_maps_beyond_the_memory_limit_are_read_from_the_store(
    engine: Engine, members: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frn_tui.engine.models.MAX_CACHED", 20_000)
    assert engine.done("classes", state=engine.state(first(members, 3)))["unread"] == []
