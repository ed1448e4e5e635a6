"""Exports and overwriting, with the exact numbers of what is written."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from frn_tui.client.file_requests import ExportClasses
from frn_tui.engine.files import projects
from frn_tui.engine.files.projects import _classifier_file
from frn_tui.engine.worker_queues import Cancelled

from frn.errors import FrnError
from frn.images.opening import open_image
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


@pytest.mark.parametrize(("count", "used"), [(1, 1), (200, 200), (201, 101), (400, 200), (401, 134)])
def test_int8_is_calibrated_on_up_to_200_examples(monkeypatch: pytest.MonkeyPatch, count: int, used: int) -> None:
    seen: list[Any] = []

    def int8(data: bytes, pixels: np.ndarray) -> bytes:
        seen.extend(pixels[:, 0])
        raise FrnError("seen")

    monkeypatch.setattr("frn_export.quantise.int8", int8)
    monkeypatch.setattr(projects, "open_image", lambda path: path)
    extractor = SimpleNamespace(data=b"", transform=lambda path: np.array([int(path.stem)]))
    supports = [SimpleNamespace(path=Path(f"{number}.png")) for number in range(count)]
    halves = [SimpleNamespace(name=name, supports=some) for name, some in (("a", supports[:9]), ("b", supports[9:]))]
    classifier: Any = SimpleNamespace(state=SimpleNamespace(classes=halves), extractor=extractor)
    with pytest.raises(FrnError, match="seen"):
        _classifier_file(classifier, "int8")
    assert len(seen) == used
    assert seen == list(range(0, count, -(-count // 200)))


def test_photo_that_can_no_longer_be_read_stops_an_export_in_int8(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frn_export.quantise.int8", lambda data, pixels: data)
    some = {}
    for name, paths in first(members, 2).items():
        some[name] = [tmp_path / f"{name} {path.name}" for path in paths]
        for path, copy in zip(paths, some[name], strict=True):
            copy.write_bytes(path.read_bytes())
    engine.done("classes", state=engine.state(some))

    def opened(path: Path) -> Any:
        image = open_image(path)
        if path == some["moth 41"][1]:
            path.unlink()
        return image

    monkeypatch.setattr(projects, "open_image", opened)
    assert str(some["moth 41"][1]) in engine.ask("export", path=str(tmp_path / "x.onnx"), what="int8").reason
    assert not (tmp_path / "x.onnx").exists()


@pytest.mark.parametrize("threshold", [None, 0.25])
def test_page_and_int8_use_the_threshold_of_the_app(
    engine: Engine,
    members: dict[str, list[Path]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    threshold: float | None,
) -> None:
    rules: list[Any] = []
    monkeypatch.setattr("frn_export.web.runtime.find_runtime", lambda given: "runtime")
    monkeypatch.setattr(
        "frn_export.web.write.write_page", lambda classifier, *_, replace: rules.append(classifier.rule)
    )
    monkeypatch.setattr("frn_export.quantise.int8", lambda data, pixels: data)

    def graph(features: bytes, classes: object, *, rule: Any, gamma: float) -> Any:
        rules.append(rule)
        return SimpleNamespace(SerializeToString=lambda deterministic: b"graph")

    monkeypatch.setattr("frn_export.graphs.classifier.classifier_graph", graph)
    engine.done("classes", state=engine.state(first(members, 3), threshold))
    engine.done("export", path=str(tmp_path / "page"), what="page")
    for what in ("classifier", "int8"):
        engine.done("export", path=str(tmp_path / what), what=what)
    assert len(rules) == 3
    if threshold is None:
        assert all(rule.weight > 0 for rule in rules)
    else:
        assert [(rule.least, rule.weight) for rule in rules] == [(0.25, 0)] * 3


def test_cancelled_export_writes_nothing(engine: Engine, members: dict[str, list[Path]], tmp_path: Path) -> None:
    def check() -> None:
        raise Cancelled

    engine.done("classes", state=engine.state(first(members, 1)))
    job: Any = SimpleNamespace(check=check)
    with pytest.raises(Cancelled):
        engine.handlers["export"](ExportClasses(path=str(tmp_path / "x.onnx")), job)
    assert not (tmp_path / "x.onnx").exists()


def test_openvino_files_replace_earlier_ones_only_on_request(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def converted(graphs: dict[str, bytes], kind: str) -> tuple[dict[str, bytes], dict[str, object]]:
        assert (list(graphs), kind) == (["features"], "openvino")
        return {"features.xml": b"xml"}, {}

    monkeypatch.setattr("frn_export.formats.converted", converted)
    engine.done("classes", state=engine.state(first(members, 1)))
    out = tmp_path / "ov"
    engine.done("export", path=str(out), what="openvino")
    assert sorted(path.name for path in out.iterdir()) == ["SHA256SUMS", "classes.npz", "features.xml"]
    for name in ("features.xml", "classes.npz"):
        (out / name).write_text("mine")
        assert f"{out / name}: already exists" in engine.ask("export", path=str(out), what="openvino").reason
        (out / name).unlink()
    (out / "features.xml").write_text("mine")
    engine.done("export", path=str(out), what="openvino", replace=True)
    assert (out / "features.xml").read_bytes() == b"xml"


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
