"""Numbers of enrolled classes, computed by hand or by the library."""

from pathlib import Path

import numpy as np
import pytest
from frn_tui.engine.classes.enrolled_classes import DISTANCE_WEIGHT, _compare

from frn.features.extractor import Extractor
from frn.inference.classifier import Classifier
from frn.models.zoo import shipped_extractors
from tests.tui.engine.conftest import Engine

SHARES = np.array([0.4, 0.6, 0.5])
ERRORS = np.array([[2.0, 1.0, 2.0, 1.5], [2.0, 2.0, 5.0, 5.0], [4.0, 1.0, 1.0, np.nan]])
DISTANCES = np.array([[1.0, 3.0, 2.0, 4.0], [1.0, 3.0, 2.0, 4.0], [1.0, 3.0, 2.0, 4.0]])


def test_rank_counts_the_strictly_better_classes_and_the_rival_is_the_best_of_them() -> None:
    """Own errors are 2, 2 and 4; those of the third example are not all known yet."""
    ranks, rivals = _compare(("a", "b", "c"), ERRORS, DISTANCES, 0, SHARES, [7, 8, 9, 10], 1.0)
    assert ranks == {"a": 2, "b": 0}
    assert list(rivals) == ["a"]
    lead = (1 - 1 / 2) * 0.6
    chance = np.exp(-1) / np.exp(-ERRORS[0]).sum()
    assert rivals["a"] == pytest.approx((8, lead, lead + DISTANCE_WEIGHT * (1 - 2), chance))
    assert _compare(("a",), ERRORS[:1], DISTANCES[:1], 0, SHARES, [7, 8, 9, 10], 1.0) == ({}, {})
    assert _compare(("a", "b"), ERRORS[:2], DISTANCES[:2], 0, SHARES[:2], [7, 8, 9, 10], 1.0)[0] == ranks
    assert (ERRORS[0, 0], DISTANCES[0, 0]) == (2.0, 1.0)


@pytest.mark.parametrize("sizes", [(1, 2, 3, 2, 1), (1, 1, 1, 1, 1), (2, 2, 2, 2, 2)])
def test_calibration_equals_that_of_the_library_for_any_sizes(
    engine: Engine, members: dict[str, list[Path]], sizes: tuple[int, ...]
) -> None:
    few = {name: paths[:size] for (name, paths), size in zip(members.items(), sizes, strict=True)}
    library = Classifier(Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1))
    library.enroll(few)
    done = engine.done("classes", state=engine.state(few))
    assert done["threshold"] == pytest.approx(library.threshold, rel=1e-5)  # from errors in float32
    assert [len(report["explained"]) for report in done["reports"]] == [size if size > 1 else 0 for size in sizes]
    assert (done["unranked"], done["unread"]) == (0, [])
    assert len(done["known"]) == sum(size for size in sizes if size > 1)


def test_answer_about_missing_maps_has_no_other_content(engine: Engine) -> None:
    support = {"path": "/x", "key": "f" * 32, "size": 1, "mtime_ns": 1}
    done = engine.done("classes", state={"classes": [{"id": 1, "name": "x", "supports": [support]}]})
    assert done == {
        "reports": [], "threshold": 0.0, "known": {}, "expected": "", "unread": [], "away": ["/x"],
        "unranked": 0, "boxes": {},
    }  # fmt: skip


def test_classes_without_examples_have_no_report(engine: Engine, members: dict[str, list[Path]]) -> None:
    few = {"none": [], **{name: paths[:1] for name, paths in list(members.items())[:2]}}
    done = engine.done("classes", state=engine.state(few))
    assert [report["id"] for report in done["reports"]] == [2, 3]
    assert engine.done("classes", state=engine.state({"none": []}))["expected"] == ""
