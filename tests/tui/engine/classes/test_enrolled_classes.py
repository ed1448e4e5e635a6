"""Numbers of enrolled classes, computed by hand or by the library."""

from pathlib import Path

import pytest

from frn.features.extractor import Extractor
from frn.inference.classifier import Classifier
from frn.models.zoo import shipped_extractors
from tests.tui.engine.conftest import Engine


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


def test_classes_without_examples_have_no_report(engine: Engine, members: dict[str, list[Path]]) -> None:
    few = {"none": [], **{name: paths[:1] for name, paths in list(members.items())[:2]}}
    done = engine.done("classes", state=engine.state(few))
    assert [report["id"] for report in done["reports"]] == [2, 3]
    assert engine.done("classes", state=engine.state({"none": []}))["expected"] == ""
