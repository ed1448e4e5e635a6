"""Answers, and how well classes can be distinguished."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from frn_tui.client.protocol import MAPPED
from frn_tui.engine.classes import class_ranks
from frn_tui.engine.classes.class_ranks import ClassErrors
from frn_tui.engine.classes.enrolled_classes import EnrolledClasses

from frn.features.feature_cache import Maps
from frn.inference.explanation import contributions
from frn.projects.session import ClassEntry, Support
from frn.ridge.enrolment import EnrolledClass, enroll
from frn.ridge.parameters import HeadParameters
from tests.tui.engine.conftest import Engine, first


def test_a_folder_is_classified_file_by_file(engine: Engine, members: dict[str, list[Path]], tmp_path: Path) -> None:
    engine.done("classes", state=engine.state(first(members, 2)))
    paths = [str(members["moth 40"][5]), str(tmp_path / "away.png"), str(members["moth 41"][5])]
    asked = engine.ask("query", paths=paths)
    answers = asked.told("answer")
    assert [answer["path"] for answer in answers] == paths
    assert [("reason" in answer, "scores" in answer) for answer in answers] == [
        (False, True),
        (True, False),
        (False, True),
    ]
    assert not any("maps" in answer for answer in answers)
    assert asked.told("progress")[-1]["done"] == 3
    assert engine.ask("query", paths=paths, cancel_at="answer").end["end"] == "cancelled"


def test_error_maps_are_for_the_likeliest_class(engine: Engine, moths: Path) -> None:
    classes = {
        f"{split} {folder.name}": sorted(folder.iterdir())[:1]
        for split in ("train", "val", "test")
        for folder in sorted((moths / split).iterdir())
    }
    engine.done("classes", state=engine.state(classes))
    (answer,) = engine.ask("query", paths=[str(next(iter(classes.values()))[0])]).told("answer")
    assert [*answer["maps"]] == [str(score["id"]) for score in answer["scores"][:MAPPED]]
    assert np.shape(next(iter(answer["maps"].values()))) == (4, 4)


def test_an_answer_is_explained_by_parts_of_the_photo_and_of_examples(
    engine: Engine, members: dict[str, list[Path]]
) -> None:
    state = engine.state(first(members, 3))
    engine.done("classes", state=state)
    path = str(members["moth 40"][5])
    (answer,) = engine.ask("query", paths=[path]).told("answer")
    why = engine.done("explain", path=path, examples=2)
    assert [one["id"] for one in why["classes"]] == [score["id"] for score in answer["scores"][:2]]
    assert (why["grid"], sum(why["shares"])) == ([4, 4], pytest.approx(1))
    assert 1 <= len(why["parts"]) <= 5
    assert (answer["views"], why["views"]) == (False, False)
    paths = {support["key"]: support["path"] for entry in state["classes"] for support in entry["supports"]}
    assert paths[answer["nearest"]] == why["classes"][0]["examples"][0]
    left = [1 - np.array(one["explained"]) for one in why["classes"]]
    errors = [np.ravel(answer["maps"][str(one["id"])]) for one in why["classes"]]
    np.testing.assert_allclose(left[0] * errors[1], left[1] * errors[0], rtol=1e-4)
    for one in why["classes"]:
        assert (len(one["examples"]), len(one["sources"]), len(one["explained"])) == (2, 16, 16)
        for sources in one["sources"]:
            assert {source["path"] for source in sources} == set(one["examples"])
            assert sorted((source["share"] for source in sources), reverse=True) == [s["share"] for s in sources]
    assert "none.png" in engine.ask("explain", path=str(members["moth 40"][5].with_name("none.png")), examples=2).reason


def test_advice_is_that_of_the_library(engine: Engine, members: dict[str, list[Path]]) -> None:
    few = first(members, 3)
    engine.done("classes", state=engine.state({**few, "moth 40": few["moth 40"][:1]}))
    assert "add photos to moth 40: it has a single one" in engine.done("advise")


@pytest.mark.parametrize("classes", [1, 3])
def test_one_photo_of_each_class_cannot_check_probabilities(
    engine: Engine, members: dict[str, list[Path]], classes: int
) -> None:
    state = engine.state(first(dict(list(members.items())[:classes]), 1))
    assert "cannot show how sure answers should be" in engine.done("classes", state=state)["expected"]


def test_ranks_that_take_too_long_are_sent_with_the_next_request(
    engine: Engine, members: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = engine.state(first(members, 3))
    monkeypatch.setattr("frn_tui.engine.classes.class_ranks.MAX_OPERATIONS", 1e6)
    monkeypatch.setattr("frn_tui.engine.classes.class_ranks.BLOCK", 2 * 4 * 64 * 64)
    left = [engine.done("classes", state=state)["unranked"] for _ in range(12)]
    assert left[0] > left[-1] == 0
    assert "rejects" in engine.done("classes", state=state)["expected"]


def test_photos_judged_together_refine_the_classes_but_examples_and_single_photos_are_unchanged(
    engine: Engine, members: dict[str, list[Path]]
) -> None:
    engine.done("classes", state=engine.state(first(members, 1)))
    paths = [str(path) for photos in members.values() for path in photos[:6]]
    asked = engine.ask("query", paths=paths)
    assert [event["done"] for event in asked.told("progress")] == [16, 30]
    together = engine.ask("query", paths=paths, jointly=True).told("answer")
    examples = {str(photos[0]) for photos in members.values()}
    for one, other in zip(asked.told("answer"), together, strict=True):
        assert one["unknown"] == other["unknown"]
        errors, refined = ([score["error"] for score in answer["scores"]] for answer in (one, other))
        assert (errors == refined) == (one["path"] in examples)
    alone = asked.told("answer")[1]["scores"]
    for count in (1, 2):
        answer, *_ = engine.ask("query", paths=paths[1 : 1 + count], jointly=True).told("answer")
        assert ([score["error"] for score in answer["scores"]] == [score["error"] for score in alone]) == (count == 1)
        assert len(answer.get("maps", [])) == (min(MAPPED, 5) if count == 1 else 0)


def test_unlabelled_photos_are_grouped_and_copies_once(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    paths, away = [path for photos in members.values() for path in photos[:6]], tmp_path / "away.png"
    (copy := tmp_path / "copy.png").write_bytes(paths[0].read_bytes())
    asked = engine.ask("group", paths=[str(path) for path in (*paths, copy, away)])
    counted = [(event["done"], event["total"]) for event in asked.told("progress")]
    assert counted == [*((number, 32) for number in range(1, 31)), (30, 32), (30, 32)]
    groups = asked.end["result"]
    assert sorted(path for group in groups for path in group) == sorted(map(str, paths))
    assert 1 <= len(groups) <= 10
    assert "no photos to group" in engine.ask("group", paths=[str(away)]).reason


@pytest.mark.parametrize("d", [5, 50])  # more and fewer locations than channels
def test_nearest_example_has_the_largest_share_and_is_not_the_photo_itself(
    d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = np.random.default_rng(0)
    maps = {key: draws.random((4, d), np.float32) for key in "abcx"}
    models: Any = SimpleNamespace(known=maps.__getitem__)
    classes, current = EnrolledClasses(models), SimpleNamespace(other=None, head=HeadParameters())
    monkeypatch.setattr(EnrolledClasses, "current", current)
    for query in ("x", "a", "x"):
        photos = [key for key in "abc" if key != query]
        pool = np.stack([maps[key] for key in photos])
        shares = contributions(maps[query].astype(np.float64), pool, HeadParameters())[0].sum((0, 2))
        assert classes.nearest(entry(7, "a", "b", "c"), query, maps[query]) == photos[int(shares.argmax())]
    assert classes.nearest(entry(8, "c"), "c", maps["c"]) == ""


def test_only_the_frn_head_explains_an_example_by_the_others_of_a_class_that_is_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("frn_tui.engine.classes.enrolled_classes.MAX_LEFT_OUT", 2)
    maps = {key: np.eye(4, 5, dtype=np.float32) for key in "abcdx"}
    models: Any = SimpleNamespace(known=maps.__getitem__)
    classes, current = EnrolledClasses(models), SimpleNamespace(other=None, head=HeadParameters())
    monkeypatch.setattr(EnrolledClasses, "current", current)
    cases = [("abc", "a", True), ("abcd", "a", False), ("abcd", "x", True)]
    for keys, query, is_explained in cases:
        assert bool(classes.nearest(entry(7, *keys), query, maps[query])) == is_explained
    current.other = object()
    assert not any(classes.nearest(entry(7, *keys), query, maps[query]) for keys, query, _ in cases)


def entry(number: int, *keys: str) -> ClassEntry:
    return ClassEntry(number, str(number), tuple(Support(Path(key), key, 1, 1) for key in keys))


R, D = 3, 8
GROUPS = [("a", "b"), ("c",), ("d", "e")]
MAPS: Mapping[str, Maps] = {
    key: np.random.default_rng(number).normal(size=(R, D)).astype(np.float32) for number, key in enumerate("abcde")
}


def nothing() -> None:
    """Check for cancellation."""


def enrolled(beta: float = 1.0) -> list[EnrolledClass]:
    """With rho above 2, some rows count negatively."""
    return [enroll(np.stack([MAPS[key] for key in group]), HeadParameters(0.5, beta, 1.0)) for group in GROUPS]


def test_one_new_photo_is_compared_with_the_classes_that_were_there(monkeypatch: pytest.MonkeyPatch) -> None:
    errors, classes, checks = ClassErrors(), enrolled(), []
    monkeypatch.setattr(class_ranks, "BLOCK", 0)  # one photo and one class at a time
    errors.errors(GROUPS[:1], classes[:1], MAPS, lambda: checks.append(1))
    assert len(checks) == 2
    found = errors.errors(GROUPS[:2], classes[:2], MAPS, lambda: checks.append(1))
    assert len(checks) == 6
    np.testing.assert_array_equal(found, ClassErrors().errors(GROUPS[:2], classes[:2], MAPS, nothing))
