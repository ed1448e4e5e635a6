"""When a bundle may replace what is there, how large it may be, and what it reports."""

import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from frn_tui.client.protocol import EXISTS

from tests.tui.engine.conftest import Engine, first


@pytest.fixture
def state(engine: Engine, members: dict[str, list[Path]], tmp_path: Path) -> Any:
    """Two classes with short names; photos may have names that differ only in case."""
    few = {}
    for name, paths in list(first(members, 2).items())[:2]:
        few[name[-1]] = [tmp_path / "photos" / name / photo for photo in ("a.png", "A.PNG")]
        few[name[-1]][0].parent.mkdir(parents=True)
        for path, copy in zip(paths, few[name[-1]], strict=True):
            shutil.copy(path, copy)
    return engine.state(few)


@pytest.mark.parametrize(
    ("there", "name", "replace", "code"),
    [
        ("file", "b.zip", False, EXISTS),
        ("file", "b.zip", True, None),
        ("folder", "b.zip", True, ""),
        ("folder", "b.zip", False, ""),
        ("file", "b", True, ""),
        ("folder", "b", True, ""),
        ("", "b", False, None),
        ("", "b.zip", False, None),
    ],
)
def test_only_a_zip_can_be_replaced_by_a_zip(
    engine: Engine, state: Any, tmp_path: Path, there: str, name: str, replace: bool, code: str | None
) -> None:
    path = tmp_path / name
    if there:
        path.mkdir() if there == "folder" else path.write_text("mine")
    asked = engine.ask("bundle", path=str(path), state=state, replace=replace)
    if code is None:
        assert asked.end["end"] == "done"
    else:
        assert asked.reason == f"{path}: already exists. Choose another name."
        assert asked.end["code"] == code


def test_bundle_is_stored_in_new_folders_class_by_class(engine: Engine, state: Any, tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "b.zip"
    asked = engine.ask("bundle", path=str(path), state=state)
    assert [(event["done"], event["total"]) for event in asked.told("progress")] == [(2, 4), (4, 4)]
    with zipfile.ZipFile(path) as archive:
        names = ["b/0/A-2.PNG", "b/0/a.png", "b/1/A-2.PNG", "b/1/a.png", "b/b.frn.json"]
        assert sorted(archive.namelist()) == names
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
    folder = tmp_path / "out" / "deep" / "b"
    asked = engine.ask("unpack", path=str(path), folder=str(folder))
    assert asked.end["result"] == str(folder / "b.frn.json")
    assert [(event["done"], event["total"]) for event in asked.told("progress")] == [(n, 4) for n in (1, 2, 3, 4)]
    assert sorted(str(each.relative_to(folder)) for each in folder.rglob("*.*")) == [name[2:] for name in names]
    again = engine.ask("unpack", path=str(path), folder=str(folder))
    assert again.end["code"] == EXISTS
    assert again.reason == f"{folder}: already exists. Choose a folder that does not exist yet."


def test_bundle_of_a_shipped_model_does_not_contain_it(engine: Engine, state: Any, tmp_path: Path) -> None:
    engine.done("bundle", path=str(tmp_path / "b"), state=state)
    assert not list((tmp_path / "b").rglob("*.onnx"))


def test_bundle_where_nothing_can_be_written_gives_the_reason(engine: Engine, state: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "b.zip"
    reason = engine.ask("bundle", path=str(path), state=state).reason
    assert reason == f"{path}: cannot be written (File exists)"
