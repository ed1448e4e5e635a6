"""Answers, chunk by chunk."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from frn_tui.client.protocol import MAPPED
from frn_tui.engine.classes.scoring import Queries
from frn_tui.engine.worker_queues import Job

from frn.inference.classifier import Classifier, Prediction
from frn.inference.extractor import Embedded, Extractor
from frn.inference.session import ClassEntry, Support
from frn.inference.unknown import RejectRule
from frn.models.zoo import shipped_extractors
from frn.ridge.parameters import HeadParameters
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


def photo(key: str, maps: Any) -> Embedded:
    return Embedded(key=key, maps=np.asarray(maps, np.float32), look=b"")


def entry(number: int, *keys: str) -> ClassEntry:
    return ClassEntry(number, str(number), tuple(Support(Path(key), key, 1, 1) for key in keys))


class Stub:
    """Three classes with given errors of each photo, and the maps of their examples."""

    def __init__(self, errors: list[list[float]], maps: dict[str, Any] | None = None, least: float = 0.0) -> None:
        self.maps = {key: np.asarray(each, np.float32) for key, each in (maps or {}).items()}
        self.errors = np.array(errors)
        self.entries = (entry(7, "a", "b"), entry(8, "c"), entry(9, "d"))
        self.classes: Any = SimpleNamespace(
            entries=self.entries,
            bank=SimpleNamespace(class_error=lambda maps: self.errors.astype(np.float32)),
            own_errors=lambda key: (0, np.array([0.5, 1.5])) if key == "a" else None,
            distances=lambda keys, maps: np.ones((len(keys), 3)),
            rule=RejectRule(least),
            head=HeadParameters(0.0, 0.0, 2.0),
        )
        extractor = SimpleNamespace(sha256="m", grid=(1, 2))
        models: Any = SimpleNamespace(model=SimpleNamespace(extractor=extractor))
        others: Any = SimpleNamespace(find=self.maps.get)
        self.queries = Queries(models, others, others)

    def answers(self, *found: Embedded) -> list[Any]:
        return list(self.queries._answers(self.classes, found, with_maps=False, jointly=False))


def test_scores_are_sorted_by_error_and_an_example_is_scored_by_leave_one_out() -> None:
    """The photos have energies of 4; the first is an example of class 7 with an own error of 1."""
    maps = np.full((2, 1), 2.0)
    example, other = Stub([[9, 3, 2], [3, 2, 2]]).answers(photo("a", maps), photo("x", maps))
    assert [(score["id"], score["error"]) for score in example["scores"]] == [(7, 1), (9, 2), (8, 3)]
    assert [(score["id"], score["explained"]) for score in other["scores"]] == [(8, 0.5), (9, 0.5), (7, 0.25)]
    weights = [math.exp(-2 * error) for error in (2, 2, 3)]
    chances = [score["probability"] for score in other["scores"]]
    assert chances == pytest.approx([weight / sum(weights) for weight in weights], rel=1e-5)


@pytest.mark.parametrize(("least", "unknown"), [(0.0, False), (0.5, False), (0.51, True)])
def test_photo_exactly_at_the_threshold_is_known(least: float, unknown: bool) -> None:
    """The best class explains a half; without a threshold, even a photo that no class explains is known."""
    for best, is_unknown in ((2.0, unknown), (4.0, least > 0)):
        (answer,) = Stub([[best, 5, 6]], least=least).answers(photo("x", np.full((2, 1), 2.0)))
        assert answer["unknown"] == is_unknown
        assert answer["threshold"] == pytest.approx(least)


def test_nearest_example_is_the_most_similar_in_direction_and_not_the_photo_itself() -> None:
    maps = {"a": [[3, 0], [3, 0]], "b": [[0, 9], [2, 9]], "c": [[1, 1], [1, 1]]}
    stub = Stub([[0, 1, 1]], maps)
    for key, query, nearest in (
        ("x", [[1, 0], [1, 0]], "a"),
        ("x", [[0, 1], [1, 3]], "b"),
        ("a", [[3, 0], [3, 0]], "b"),
    ):
        (answer,) = stub.answers(photo(key, query))
        assert answer["nearest"] == nearest
    (answer,) = Stub([[1, 1, 0]], maps).answers(photo("x", [[1, 1], [1, 1]]))
    assert answer["nearest"] == ""  # the maps of its only example are gone


def test_directions_belong_to_one_model() -> None:
    stub = Stub([[0, 1, 1]], {"a": [[1, 0]], "b": [[0, 1]]})
    assert stub.queries._direction("a") is not None
    stub.maps["a"] = np.array([[0, 5]], np.float32)
    assert stub.queries._direction("a").tolist() == [1, 0]  # type: ignore[union-attr]
    stub.queries._models.model.extractor.sha256 = "other"
    assert stub.queries._direction("a").tolist() == [0, 1]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("sizes", "shot", "reason"),
    [
        ((2, 1, 1, 1, 1), 1, "testing with 1 example per class needs two classes with more examples, but there is 1."),
        ((1, 1, 1, 1, 1), 0, "testing with 1 example per class needs two classes with more examples, but there are 0."),
        (
            (2, 2, 2, 2, 2),
            2,
            "testing with 2 examples per class needs two classes with more examples, but there are 0.",
        ),
    ],
)
def test_message_states_how_many_classes_have_enough_examples(
    engine: Engine, members: dict[str, list[Path]], sizes: tuple[int, ...], shot: int, reason: str
) -> None:
    few = {name: paths[:size] for (name, paths), size in zip(members.items(), sizes, strict=True)}
    engine.done("classes", state=engine.state(few))
    assert engine.ask("hide_and_test", shot=shot).reason == f"{reason} Use fewer examples or add some."


def test_two_classes_with_a_hidden_example_each_are_enough(engine: Engine, members: dict[str, list[Path]]) -> None:
    few = {name: paths[:2] for name, paths in list(members.items())[:2]} | {"moth 44": members["moth 44"][:1]}
    engine.done("classes", state=engine.state(few))
    asked = engine.ask("hide_and_test", shot=0)
    done = asked.end["result"]
    assert done["ids"] == [1, 2]
    assert np.sum(done["counts"], axis=1).tolist() == [1, 1]
    right = int(np.trace(done["counts"]))
    assert done["accuracy"] == right / 2
    low, high = done["interval"]
    assert low < done["accuracy"] + 1e-9
    assert high > done["accuracy"] - 1e-9
    assert [(event["done"], event["total"]) for event in asked.told("progress")] == [(2, 2)]


def test_hidden_examples_are_tested_sixteen_at_a_time(engine: Engine, members: dict[str, list[Path]]) -> None:
    engine.done("classes", state=engine.state(first(members, 5)))
    asked = engine.ask("hide_and_test", shot=1)
    assert [(event["done"], event["total"]) for event in asked.told("progress")] == [(16, 20), (20, 20)]


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
        assert answer["threshold"] == pytest.approx(expected.threshold, rel=1e-5)
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
    asked = engine.ask("embed", paths=[str(path) for path in members["moth 40"][:4]], cancel_at="reading")
    assert (asked.end["end"], len(asked.told("reading"))) == ("cancelled", 1)


@pytest.mark.parametrize(("op", "count"), [("classes", 22), ("query", 46), ("hide_and_test", 7)])
def test_each_step_checks_whether_it_is_still_wanted(
    engine: Engine, members: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch, op: str, count: int
) -> None:
    """Five classes of three photos each."""
    few, checks, check = first(members, 3), [0], Job.check
    state = engine.state(few)
    if op != "classes":
        engine.done("classes", state=state)

    def counting(job: Job) -> None:
        checks[0] += 1
        check(job)

    monkeypatch.setattr(Job, "check", counting)
    engine.done(op, state=state, paths=[str(path) for paths in few.values() for path in paths], shot=1)
    assert checks == [count]
