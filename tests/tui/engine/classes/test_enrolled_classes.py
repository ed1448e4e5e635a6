"""Numbers of enrolled classes, computed by hand or by the library."""

from pathlib import Path

import numpy as np
import pytest
from frn_tui.engine.classes.enrolled_classes import (
    DISTANCE_WEIGHT,
    _compare,
    enroll_class,
)

from frn.features.extractor import Extractor
from frn.inference.classifier import Classifier
from frn.models.zoo import shipped_extractors
from frn.ridge.enrolment import energy, enroll
from frn.ridge.parameters import HeadParameters
from tests.tui.engine.conftest import Engine

HEAD = HeadParameters(0.3, 0.2, 5.0)


def test_single_example_is_not_explained_by_the_rest_of_its_class() -> None:
    maps = np.array([[[3.0, 4.0], [1.0, 2.0]]], np.float32)
    record = enroll_class(maps, HEAD)
    assert record.own_errors.tolist() == [[25.0, 5.0]]
    assert record.left_out_shares.tolist() == []


def test_two_examples_explain_each_other() -> None:
    maps = np.random.default_rng(0).random((2, 3, 5)).astype(np.float32)
    record = enroll_class(maps, HEAD)
    for one, other in ((0, 1), (1, 0)):
        errors = enroll_error(maps[other][None], maps[one])
        np.testing.assert_allclose(record.own_errors[one], errors, rtol=1e-4)
        share = 1 - errors.mean() / float(energy(maps[one][None])[0])
        assert record.left_out_shares[one] == pytest.approx(share, rel=1e-4)


def enroll_error(support: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return the error of each location, (r,)."""
    one = enroll(support, HEAD)
    return np.square(query).sum(1) - (np.square(query @ one.rows.T) * one.signs).sum(1)


OWN, SHARES = np.array([2.0, 2.0, 4.0]), np.array([0.4, 0.6, 0.5])
ERRORS = np.array([[0.1, 1.0, 2.0, 1.5], [0.1, 2.0, 5.0, 5.0], [0.1, 1.0, 1.0, np.nan]])


DISTANCES = np.array([[1.0, 3.0, 2.0, 4.0], [1.0, 3.0, 2.0, 4.0], [1.0, 3.0, 2.0, 4.0]])


def test_rank_counts_the_strictly_better_classes_and_the_rival_is_the_best_of_them() -> None:
    """Own errors are 2, 2 and 4; those of the third example are not all known yet."""
    ranks, rivals = _compare(("a", "b", "c"), OWN, ERRORS, DISTANCES, 0, SHARES, [7, 8, 9, 10])
    assert ranks == {"a": 2, "b": 0}
    assert list(rivals) == ["a"]
    lead = (1 - 1 / 2) * 0.6
    assert rivals["a"] == pytest.approx((8, lead, lead + DISTANCE_WEIGHT * (1 - 2)))
    assert _compare(("a",), OWN[:1], ERRORS[:1], DISTANCES[:1], 0, SHARES, [7, 8, 9, 10]) == ({}, {})
    assert _compare(("a", "b"), OWN[:2], ERRORS[:2], DISTANCES[:2], 0, SHARES[:2], [7, 8, 9, 10])[0] == ranks
    assert (ERRORS[0, 0], DISTANCES[0, 0]) == (0.1, 1.0)


@pytest.mark.parametrize("sizes", [(1, 2, 3, 2, 1), (1, 1, 1, 1, 1), (2, 2, 2, 2, 2)])
def test_calibration_equals_that_of_the_library_for_any_sizes(
    engine: Engine, members: dict[str, list[Path]], sizes: tuple[int, ...]
) -> None:
    few = {name: paths[:size] for (name, paths), size in zip(members.items(), sizes, strict=True)}
    library = Classifier(Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1))
    library.enroll(few)
    done = engine.done("classes", state=engine.state(few))
    assert done["calibrated"] == pytest.approx(library.threshold)
    assert [len(report["explained"]) for report in done["reports"]] == [size if size > 1 else 0 for size in sizes]
    assert (done["unranked"], done["unread"], done["threshold"]) == (0, [], done["calibrated"])


def test_answer_about_missing_maps_has_no_other_content(engine: Engine) -> None:
    support = {"path": "/x", "key": "f" * 32, "size": 1, "mtime_ns": 1}
    done = engine.done("classes", state={"classes": [{"id": 1, "name": "x", "supports": [support]}]})
    assert done == {
        "reports": [], "threshold": 0.0, "calibrated": 0.0, "expected": "", "unread": [], "away": ["/x"],
        "unranked": 0,
    }  # fmt: skip


def test_classes_without_examples_have_no_report(engine: Engine, members: dict[str, list[Path]]) -> None:
    few = {"none": [], **{name: paths[:1] for name, paths in list(members.items())[:2]}}
    done = engine.done("classes", state=engine.state(few))
    assert [report["id"] for report in done["reports"]] == [2, 3]
    assert engine.done("classes", state=engine.state({"none": []}))["expected"] == ""
