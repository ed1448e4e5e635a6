"""Compared models, best first."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tui.engine.conftest import Engine


def test_models_are_reported_best_first_and_without_an_undefined_area(
    bare: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: dict[str, Any] = {"photos": 9, "interval": (0.1, 0.9), "milliseconds": 2.5, "bytes": 7}
    found = [
        SimpleNamespace(model=model, right=right, auroc=auroc, **numbers)
        for model, right, auroc in (("a", 3, 0.75), ("b", 5, math.nan), ("c", 4, 0.5))
    ]

    def compare(classes: dict[str, list[Path]], models: Any) -> Any:
        assert classes == {"jay": [Path("/x")]}
        assert list(models) == [("a", "cpu a"), ("b", "cpu b"), ("c", "cpu c")]
        yield from found

    monkeypatch.setattr("frn.estimator.loading.load_extractor", lambda name, device: f"{device} {name}")
    monkeypatch.setattr("frn.evaluation.comparison.compare_models", compare)
    monkeypatch.setattr("frn.evaluation.comparison.disagreements", lambda compared: [Path(str(len(compared)))])
    asked = bare.ask("compare", classes={"jay": ["/x"]}, models=["a", "b", "c"])
    scores = asked.end["result"]["scores"]
    assert [(score["model"], score["right"], score["auroc"]) for score in scores] == [
        ("b", 5, None),
        ("c", 4, 0.5),
        ("a", 3, 0.75),
    ]
    for score in scores:
        assert {name: score[name] for name in numbers} == {**numbers, "interval": [0.1, 0.9]}
    assert asked.end["result"]["differing"] == ["3"]
    assert [(event["done"], event["total"]) for event in asked.told("progress")] == [(1, 3), (2, 3), (3, 3)]
