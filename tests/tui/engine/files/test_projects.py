"""Exports and overwriting, with the exact numbers of what is written."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from frn_tui.client.file_requests import ExportClasses
from frn_tui.engine.worker_queues import Cancelled

from tests.tui.engine.conftest import Engine, first


def test_arrays_state_where_the_rows_of_each_class_start(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    few = {name: paths[: 1 + number] for number, (name, paths) in enumerate(members.items())}
    engine.done("classes", state=engine.state(few))
    engine.done("export", path=str(tmp_path / "x.npz"), what="arrays")
    bank = np.load(io.BytesIO((tmp_path / "x.npz").read_bytes()))
    sizes = [16 * (1 + number) for number in range(4)] + [64]  # at most one row for each of 64 channels
    assert bank["starts"].tolist() == [0, *np.cumsum(sizes[:-1])]
    assert bank["rows"].shape == (sum(sizes), 64)
    assert bank["signs"].shape == (sum(sizes),)


@pytest.mark.parametrize("threshold", [None, 0.25])
def test_page_and_file_use_the_threshold_of_the_app(
    engine: Engine,
    members: dict[str, list[Path]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    threshold: float | None,
) -> None:
    rules: list[Any] = []
    monkeypatch.setattr("frn_export.web.runtime.find_runtime", lambda page: "runtime")
    monkeypatch.setattr(
        "frn_export.web.write.write_page", lambda classifier, *_, replace: rules.append(classifier.rule)
    )

    def graph(features: bytes, classes: object, *, rule: Any, gamma: float) -> Any:
        rules.append(rule)
        return SimpleNamespace(SerializeToString=lambda deterministic: b"graph")

    monkeypatch.setattr("frn_export.graphs.classifier.classifier_graph", graph)
    engine.done("classes", state=engine.state(first(members, 3), threshold))
    engine.done("export", path=str(tmp_path / "page"), what="page")
    engine.done("export", path=str(tmp_path / "classifier"), what="classifier")
    assert len(rules) == 2
    assert rules[0] == rules[1]
    assert rules[0].weights
    assert (rules[0].threshold == threshold) is (threshold is not None)


def test_cancelled_export_writes_nothing(engine: Engine, members: dict[str, list[Path]], tmp_path: Path) -> None:
    def check() -> None:
        raise Cancelled

    engine.done("classes", state=engine.state(first(members, 1)))
    job: Any = SimpleNamespace(check=check)
    with pytest.raises(Cancelled):
        engine.handlers["export"](ExportClasses(path=str(tmp_path / "x.onnx")), job)
    assert not (tmp_path / "x.onnx").exists()


def test_save_to_a_project_that_is_open_elsewhere_names_the_process(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "x.frn.json")
    monkeypatch.setattr(
        "frn_tui.engine.files.journal.RunningApp.holder", lambda locks, name: 0 if name == path else None
    )
    asked = engine.ask("save", path=path, state={"classes": []})
    assert asked.reason == f"{path}: is open in another frn-tui (process 0). Save under another name."
    engine.done("save", path=str(tmp_path / "y.frn.json"), state={"classes": []})
