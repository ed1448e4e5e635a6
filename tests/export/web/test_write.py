"""The checks and the description of a page."""

import json
import math
import re
from pathlib import Path

import pytest
from frn_export.difference import Difference
from frn_export.web import write
from frn_export.web.runtime import Runtime
from frn_export.web.write import write_page

from frn.errors import FrnError
from frn.estimator.loading import load_classifier, load_extractor
from frn.inference.classifier import Classifier
from frn.inference.unknown import KnownRule
from tests.drawings import DRAWINGS

RUNTIME = Runtime("1.30.0", b"export {};", b"\0asm")


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return load_classifier(DRAWINGS / "moths", "conv4", "cpu")[0]


def test_page_states_its_model_its_crop_and_its_rule(classifier: Classifier, tmp_path: Path) -> None:
    write_page(classifier, tmp_path / "page", RUNTIME, replace=False)
    told = json.loads((tmp_path / "page" / "page.json").read_text())
    assert told["channels"] == 64
    assert told["offset"] == 0
    assert told["crop"] == {"size": 32, "length": 35, "square": False, "own": True}
    assert KnownRule(**{**told["rule"], "weights": tuple(told["rule"]["weights"]), "offsets": ()}) == classifier.rule
    assert told["gamma"] == classifier.head.gamma
    assert re.search('"[0-9a-f]{16}"', (tmp_path / "page" / "sw.js").read_text())
    assert told["classes"][0]["photos"] == [f"{number}.jpg" for number in range(1, 6)]
    assert not (tmp_path / "page" / "examples").exists()
    empty = Classifier(load_extractor("conv4", "cpu"))
    write_page(empty, tmp_path / "empty", RUNTIME, replace=False)
    told = json.loads((tmp_path / "empty" / "page.json").read_text())
    assert (told["rule"]["weights"], told["classes"]) == ([], [])


def test_small_copies_of_examples_are_written_on_request(classifier: Classifier, tmp_path: Path) -> None:
    for thumbnails in (True, False):  # a later export without them removes them
        write_page(classifier, tmp_path / "page", RUNTIME, thumbnails=thumbnails, replace=False)
        shown = sorted((tmp_path / "page").glob("examples/*"))
        assert [path.name for path in shown] == sorted(f"{number}.jpg" for number in range(30 * thumbnails))
        assert all(len(path.read_bytes()) < 20_000 for path in shown)
        assert json.loads((tmp_path / "page" / "page.json").read_text())["thumbnails"] == thumbnails


def test_page_has_the_allowances_and_offsets_of_unequal_classes(tmp_path: Path) -> None:
    homes = sorted((DRAWINGS / "moths").iterdir())[:3]
    unequal = Classifier(load_extractor("conv4", "cpu"))
    unequal.enroll({home.name: sorted(home.iterdir())[: 1 + 2 * place] for place, home in enumerate(homes)})
    write_page(unequal, tmp_path / "page", RUNTIME, replace=False)
    page = json.loads((tmp_path / "page" / "page.json").read_text())
    allowances = [one.allowance for one in unequal.classes.values()]
    assert allowances[2] > allowances[0] == 0
    offsets = [page["offset"] * math.log(5 / entry["shots"]) for entry in page["classes"]]
    assert offsets == pytest.approx(unequal.rule.offsets)
    assert offsets[0] > 0
    assert [page["slope"] * math.log(entry["shots"]) for entry in page["classes"]] == pytest.approx(allowances)


def test_corrections_are_stored_separately_for_pages_with_different_classes(
    classifier: Classifier, tmp_path: Path
) -> None:
    photos = sorted((DRAWINGS / "moths").glob("*/*"))

    def page_id(name: str, count: int) -> str:
        made = Classifier(classifier.extractor)
        made.enroll({name: photos[:count], "jay": photos[-1:]})
        write_page(made, tmp_path, RUNTIME, replace=False)
        return str(json.loads((tmp_path / "page.json").read_text())["id"])

    first = page_id("owl", 1)
    assert page_id("owl", 1) == first
    assert len({first, page_id("gull", 1), page_id("owl", 2)}) == 3
    assert "key()" in (tmp_path / "page.js").read_text()


def test_graphs_that_differ_write_nothing(
    classifier: Classifier, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for tta, reason in (("auto", "is the same for every photo"), ("views", "cannot classify with --tta views")):
        with pytest.raises(FrnError, match=reason):
            write_page(Classifier(load_extractor("conv4", "cpu", tta)), tmp_path, RUNTIME, replace=False)  # type: ignore[arg-type]
    odd = Classifier(classifier.extractor)
    odd.enroll({"\udcff": [next((DRAWINGS / "queries").iterdir())]})
    with pytest.raises(FrnError, match=r"its name is not valid text \(UTF-8\)\. Rename its folder"):
        write_page(odd, tmp_path, RUNTIME, replace=False)
    monkeypatch.setattr(write, "compare_answers", lambda *_: Difference("page", 1.0, 0.0, "energy"))
    with pytest.raises(FrnError, match="page differs from the original"):
        write_page(classifier, tmp_path, RUNTIME, replace=False)
    assert not list(tmp_path.iterdir())
    (tmp_path / "index.html").write_text("mine")  # found before the graphs are compared
    with pytest.raises(FrnError, match=r"index\.html: already exists"):
        write_page(classifier, tmp_path, RUNTIME, replace=False)
