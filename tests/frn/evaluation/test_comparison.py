"""Comparing models on your classes by leave-one-out accuracy, and listing photos on which they disagree."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from frn.errors import FrnError
from frn.estimator.loading import load_extractor
from frn.evaluation.comparison import ModelComparison, compare_models, disagreements
from frn.inference.classifier import Classifier, Prediction
from tests.commands import frn

MODELS = ("conv4", "resnet12-small")


@pytest.fixture(scope="module")
def classes(moths: Path) -> dict[str, list[Path]]:
    homes = sorted((moths / "test").iterdir())[:3]
    return {home.name: sorted(home.iterdir())[:count] for home, count in zip(homes, (4, 3, 1), strict=True)}


def compared(classes: dict[str, list[Path]]) -> Iterator[ModelComparison]:
    return compare_models(classes, [(name, load_extractor(name)) for name in MODELS])


def test_each_example_is_classified_by_leave_one_out(classes: dict[str, list[Path]]) -> None:
    """The label equals that of `Classifier.classify`, which uses leave-one-out for examples."""
    for found in compared(classes):
        classifier = Classifier(load_extractor(found.model))
        classifier.enroll(classes)
        several = {path: name for name, paths in classes.items() for path in paths if len(paths) > 1}
        expected = {}
        for path, answer in classifier.classify(several):
            assert isinstance(answer, Prediction)
            expected[path] = answer.label
        assert found.answers == expected
        assert found.right == sum(expected[path] == name for path, name in several.items())
        assert found.photos == 7
        low, high = found.interval
        assert low <= found.right / found.photos <= high
        assert found.milliseconds > 0


def test_models_disagree_on_photos_with_different_labels(classes: dict[str, list[Path]]) -> None:
    first, second = compared(classes)
    differing = disagreements([first, second])
    assert differing == [path for path in first.answers if first.answers[path] != second.answers[path]]
    assert disagreements([first]) == []
    changed = next(iter(first.answers))
    other = replace(first, answers={**first.answers, changed: "another"})
    assert disagreements([first, other]) == disagreements([first, first, other]) == [changed]


def test_a_class_with_one_photo_cannot_be_compared(classes: dict[str, list[Path]]) -> None:
    single = {name: paths[:1] for name, paths in classes.items()}
    with pytest.raises(FrnError, match="needs a class with at least two photos"):
        list(compared(single))


def test_compare_command_prints_the_library_result(classes: dict[str, list[Path]], tmp_path: Path) -> None:
    for name, paths in classes.items():
        home = tmp_path / "classes" / name
        home.mkdir(parents=True)
        for path in paths:
            (home / path.name).write_bytes(path.read_bytes())
    words = ["models", "compare", str(tmp_path / "classes"), "--model", "conv4", "--model", "resnet12-small"]
    shown = json.loads(frn(*words, "--json").stdout)
    first, _ = compared(classes)
    assert shown["models"]["conv4"]["accuracy"] == round(100 * first.right / first.photos, 2)
    result = frn(*words)
    assert result.exit_code == 0, result.output
    table = result.stdout
    assert "conv4" in table
    assert f"The models disagree on {len(shown['disagreements'])} of 7 photos" in table
