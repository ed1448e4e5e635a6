"""Answers, chunk by chunk."""

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

from frn.features.extractor import Extractor
from frn.features.feature_cache import Maps
from frn.inference.classifier import Classifier, Prediction
from frn.inference.explanation import contributions
from frn.models.zoo import shipped_extractors
from frn.projects.session import ClassEntry, Support
from frn.ridge.enrolment import EnrolledClass, enroll
from frn.ridge.parameters import HeadParameters
from tests.tui.engine.conftest import Engine, first


def test_a_single_photo_is_never_judged_jointly_and_has_maps(engine: Engine, members: dict[str, list[Path]]) -> None:
    engine.done("classes", state=engine.state(first(members, 2)))
    path = str(members["moth 42"][9])
    (alone,) = engine.ask("query", paths=[path]).told("answer")
    (jointly,) = engine.ask("query", paths=[path], jointly=True).told("answer")
    assert alone["scores"] == jointly["scores"]
    both = engine.ask("query", paths=[path, str(members["moth 41"][9])], jointly=True).told("answer")
    assert both[0]["scores"] != alone["scores"]
    assert len(alone["maps"]) == min(MAPPED, 5)


def test_scores_are_sorted_by_error_and_sum_to_one(engine: Engine, members: dict[str, list[Path]]) -> None:
    engine.done("classes", state=engine.state(first(members, 2)))
    (answer,) = engine.ask("query", paths=[str(members["moth 42"][9])]).told("answer")
    errors = [score["error"] for score in answer["scores"]]
    assert errors == sorted(errors)
    assert sum(score["probability"] for score in answer["scores"]) == pytest.approx(1)
    assert list(answer["maps"]) == [str(score["id"]) for score in answer["scores"]]


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


def test_copies_are_grouped_once_and_progress_counts_readable_photos(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    paths = [*members["moth 40"][:2], members["moth 41"][0]]
    copy = tmp_path / "copy.png"
    copy.write_bytes(paths[0].read_bytes())
    asked = engine.ask("group", paths=[str(path) for path in (*paths, copy, tmp_path / "away.png")])
    assert [(event["done"], event["total"]) for event in asked.told("progress")] == [(n, 5) for n in (1, 2, 3, 3, 3)]
    assert sorted(path for group in asked.end["result"] for path in group) == sorted(map(str, paths))


def test_example_is_judged_by_leave_one_out_as_in_the_library(engine: Engine, members: dict[str, list[Path]]) -> None:
    few = first(members, 3)
    library = Classifier(Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1))
    library.enroll(few)
    engine.done("classes", state=engine.state(few))
    paths = [few["moth 40"][2], few["moth 43"][0], few["moth 44"][1]]
    for path, (_, expected) in zip(paths, library.classify(paths), strict=True):
        assert isinstance(expected, Prediction)
        (answer,) = engine.ask("query", paths=[str(path)]).told("answer")
        assert answer["known"] == pytest.approx(expected.known, rel=1e-4)
        assert answer["unknown"] == expected.unknown
        errors = {[*few][score["id"] - 1]: score["error"] for score in answer["scores"]}
        assert errors == pytest.approx(expected.errors, rel=1e-4)
        for score in answer["scores"][:MAPPED]:
            assert np.mean(answer["maps"][str(score["id"])]) == pytest.approx(score["error"], rel=1e-5)
        jointly = engine.ask("query", paths=list(map(str, paths)), jointly=True).told("answer")
        assert [s["error"] for s in jointly[paths.index(path)]["scores"]] == pytest.approx(
            sorted(errors.values()), rel=1e-5
        )


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


@pytest.mark.parametrize("sizes", [(1, 2, 3, 2, 1), (1, 1, 1, 1, 1), (2, 2, 2, 2, 2)])
def test_calibration_equals_that_of_the_library_for_any_sizes(
    engine: Engine, members: dict[str, list[Path]], sizes: tuple[int, ...]
) -> None:
    few = {name: paths[:size] for (name, paths), size in zip(members.items(), sizes, strict=True)}
    library = Classifier(Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1))
    library.enroll(few)
    done = engine.done("classes", state=engine.state(few))
    assert done["threshold"] == pytest.approx(library.threshold, rel=1e-5)  # from errors in float32
    for fact in ("explained", "rank"):
        assert [len(report[fact]) for report in done["reports"]] == [size if size > 1 else 0 for size in sizes]
    assert (done["unranked"], done["unread"]) == (0, [])
    assert len(done["known"]) == sum(size for size in sizes if size > 1)


def test_classes_without_examples_have_no_report(engine: Engine, members: dict[str, list[Path]]) -> None:
    few = {"none": [], **{name: paths[:1] for name, paths in list(members.items())[:2]}}
    done = engine.done("classes", state=engine.state(few))
    assert [report["id"] for report in done["reports"]] == [2, 3]
    assert engine.done("classes", state=engine.state({"none": []}))["expected"] == ""
