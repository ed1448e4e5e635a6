"""Answers, chunk by chunk."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from frn_tui.client.protocol import MAPPED
from frn_tui.engine.classes.enrolled_classes import EnrolledClasses

from frn.features.extractor import Extractor
from frn.inference.classifier import Classifier, Prediction
from frn.models.zoo import shipped_extractors
from frn.projects.session import ClassEntry, Support
from tests.tui.engine.conftest import Engine, first


@pytest.mark.parametrize(("count", "steps"), [(15, [15]), (16, [16]), (17, [16, 17])])
def test_photos_are_answered_sixteen_at_a_time(
    engine: Engine, members: dict[str, list[Path]], count: int, steps: list[int]
) -> None:
    engine.done("classes", state=engine.state(first(members, 1)))
    paths = [str(path) for photos in members.values() for path in photos][:count]
    for jointly in (False, True):
        asked = engine.ask("query", paths=paths, jointly=jointly)
        expected = [count] if jointly else steps
        assert [(event["done"], event["total"]) for event in asked.told("progress")] == [(n, count) for n in expected]


def test_a_single_photo_is_never_judged_jointly_and_has_maps(engine: Engine, members: dict[str, list[Path]]) -> None:
    engine.done("classes", state=engine.state(first(members, 2)))
    path = str(members["moth 42"][9])
    (alone,) = engine.ask("query", paths=[path]).told("answer")
    (jointly,) = engine.ask("query", paths=[path], jointly=True).told("answer")
    assert alone["scores"] == jointly["scores"]
    assert len(alone["maps"]) == min(MAPPED, 5)


def test_scores_are_sorted_by_error_and_sum_to_one(engine: Engine, members: dict[str, list[Path]]) -> None:
    engine.done("classes", state=engine.state(first(members, 2)))
    (answer,) = engine.ask("query", paths=[str(members["moth 42"][9])]).told("answer")
    errors = [score["error"] for score in answer["scores"]]
    assert errors == sorted(errors)
    assert sum(score["probability"] for score in answer["scores"]) == pytest.approx(1)
    assert list(answer["maps"]) == [str(score["id"]) for score in answer["scores"]]


def test_nearest_example_is_the_most_similar_in_direction_and_not_the_photo_itself() -> None:
    nothing: Any = SimpleNamespace()
    classes = EnrolledClasses(nothing)
    maps = {"a": [[3, 0], [3, 0]], "b": [[0, 9], [2, 9]], "c": [[1, 1], [1, 1]]}
    for keys in (("a", "b"), ("c",)):
        classes._means[keys] = np.array([maps[key] for key in keys], np.float64).mean(1)
    two, one = entry(7, "a", "b"), entry(8, "c")
    for of, key, query, nearest in (
        (two, "x", [[1, 0], [1, 0]], "a"),
        (two, "x", [[0, 1], [1, 3]], "b"),
        (two, "a", [[3, 0], [3, 0]], "b"),
        (one, "x", [[9, 0], [9, 0]], "c"),
        (one, "c", [[1, 1], [1, 1]], ""),
    ):
        assert classes.nearest(of, key, np.array(query, np.float32)) == nearest


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


def test_photos_are_read_only_until_the_request_is_cancelled(engine: Engine, members: dict[str, list[Path]]) -> None:
    asked = engine.ask("embed", paths=[str(path) for path in members["moth 40"][:4]], cancel_at="embedded")
    assert (asked.end["end"], len(asked.told("embedded"))) == ("cancelled", 1)
