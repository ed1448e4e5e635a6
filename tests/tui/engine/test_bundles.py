"""Bundles of projects with their photos, and moved photos."""

import json
import os
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from frn.models.zoo import shipped_extractors
from tests.tui.engine.conftest import Engine

NAMES = ["a/b: x", "..", "A_b_ X"]


@pytest.fixture
def birds(tmp_path: Path, members: dict[str, list[Path]]) -> dict[str, list[Path]]:
    """Class names that file systems refuse or treat as equal; each class has photos with the same names."""
    found = {}
    for number, (name, paths) in enumerate(zip(NAMES, members.values(), strict=False)):
        home = tmp_path / "disk" / str(number)
        home.mkdir(parents=True)
        found[name] = [Path(shutil.copy(path, home / f"{i}.png")) for i, path in enumerate(paths[:2])]
    return found


def content(state: dict[str, Any]) -> dict[str, list[str]]:
    return {entry["name"]: [one["key"] for one in entry["supports"]] for entry in state["classes"]}


@pytest.mark.parametrize("name", ["birds.zip", "birds"])
def test_bundle_opens_on_a_machine_without_the_originals(
    engine: Engine, birds: dict[str, list[Path]], tmp_path: Path, name: str
) -> None:
    state = engine.state(birds, threshold=0.3)
    target = tmp_path / "out" / name
    engine.done("bundle", path=str(target), state=state)
    shutil.rmtree(tmp_path / "disk")
    place = tmp_path / "other machine"
    place.mkdir()
    shutil.move(target, place)
    project = place / "birds" / "birds.frn.json"
    if name == "birds.zip":
        assert engine.done("scan", path=str(place / name))["kind"] == "bundle"
        found = engine.done("unpack", path=str(place / name), folder=str(place / "birds"))
        assert found == str(project)
        assert "already exists" in engine.ask("unpack", path=str(place / name), folder=str(place / "birds")).reason
    loaded = engine.done("load", path=str(project))
    assert content(loaded["state"]) == content(state)
    assert loaded["state"]["threshold"] == 0.3
    paths = [one["path"] for entry in loaded["state"]["classes"] for one in entry["supports"]]
    assert list(engine.done("stamp", paths=paths)) == paths
    assert all(Path(path).resolve().is_relative_to(place / "birds") for path in paths)
    assert not list(place.glob(".*")) + list((tmp_path / "out").glob(".*"))


@pytest.mark.parametrize("name", ["birds.zip", "birds"])
def test_bundle_includes_photos_that_are_none_of_the_classes(
    engine: Engine, birds: dict[str, list[Path]], tmp_path: Path, name: str
) -> None:
    state = engine.state(birds)
    state["others"] = [state["classes"].pop()["supports"][0]]
    engine.done("bundle", path=str(tmp_path / name), state=state)
    shutil.rmtree(tmp_path / "disk")
    if name == "birds.zip":
        engine.done("unpack", path=str(tmp_path / name), folder=str(tmp_path / "birds"))
    loaded = engine.done("load", path=str(tmp_path / "birds" / "birds.frn.json"))["state"]
    assert content(loaded) == content(state)
    (other,) = loaded["others"]
    assert other["key"] == state["others"][0]["key"]
    assert Path(other["path"]).resolve().is_relative_to(tmp_path / "birds" / "none of these")
    assert Path(other["path"]).is_file()


def test_bundle_includes_a_model_that_is_not_shipped(
    bare: Engine, birds: dict[str, list[Path]], tmp_path: Path
) -> None:
    from frn.models.zoo import shipped_extractors

    own = Path(shutil.copy(shipped_extractors()["conv4"], tmp_path / "mine.onnx"))
    bare.done("open_model", model=str(own))
    bare.done("bundle", path=str(tmp_path / "b"), state=bare.state(birds))
    own.unlink()
    loaded = bare.done("load", path=str(tmp_path / "b" / "b.frn.json"))
    assert bare.done("open_model", model=loaded["model"])["sha256"] == loaded["sha256"]


def test_bundle_is_complete_or_absent(engine: Engine, birds: dict[str, list[Path]], tmp_path: Path) -> None:
    state = engine.state(birds)
    target = tmp_path / "b.zip"
    target.write_text("something else")
    assert "already exists" in engine.ask("bundle", path=str(target), state=state).reason
    birds[".."][0].write_bytes(birds[".."][1].read_bytes())
    assert "has changed since it was added" in engine.ask("bundle", path=str(target), state=state, replace=True).reason
    birds[".."][0].unlink()
    assert str(birds[".."][0]) in engine.ask("bundle", path=str(target), state=state, replace=True).reason
    assert target.read_text() == "something else"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.zip", "cache", "disk"]


@pytest.mark.parametrize("member", ["../out.txt", "/out.txt", "b/../../out.txt", "b\\..\\out.txt"])
def test_bundle_unpacks_nothing_outside_its_folder(engine: Engine, tmp_path: Path, member: str) -> None:
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("b/b.frn.json", "{}")
        archive.writestr(zipfile.ZipInfo(member), "x")
    asked = engine.ask("unpack", path=str(tmp_path / "b.zip"), folder=str(tmp_path / "in" / "b"))
    assert "points outside the archive" in asked.reason
    assert not (tmp_path / "in" / "b").exists()
    assert not list(tmp_path.rglob("out.txt"))


def test_bundle_unpacks_only_project_photos_and_model(
    bare: Engine, birds: dict[str, list[Path]], tmp_path: Path
) -> None:
    own = Path(shutil.copy(shipped_extractors()["conv4"], tmp_path / "mine.onnx"))
    bare.done("open_model", model=str(own))
    bare.done("bundle", path=str(tmp_path / "b.zip"), state=bare.state(birds))
    bare.done("unpack", path=str(tmp_path / "b.zip"), folder=str(tmp_path / "plain"))
    expected = {path.relative_to(tmp_path / "plain") for path in (tmp_path / "plain").rglob("*")}
    with zipfile.ZipFile(tmp_path / "b.zip", "a") as archive:
        for name in ("b/frn.toml", "b/.bashrc", "b/jay/run.sh", "b/other.jpg", "README.md", "b/.hidden/x.jpg"):
            archive.writestr(name, "more")
    bare.done("unpack", path=str(tmp_path / "b.zip"), folder=str(tmp_path / "more"))
    assert {path.relative_to(tmp_path / "more") for path in (tmp_path / "more").rglob("*")} == expected
    assert (tmp_path / "more").stat().st_mode & 0o777 == (tmp_path / "plain").stat().st_mode & 0o777


def test_bundle_does_not_unpack_files_that_are_not_photos(bare: Engine, tmp_path: Path) -> None:
    photos = [
        {"path": name, "key": str(n), "size": 1, "mtime_ns": 1}
        for n, name in enumerate((".bashrc", "x.sh", ".ssh/x.jpg", "../y.jpg"))
    ]
    model = {"id": "conv4", "sha256": "0" * 64, "preprocess": {"size": 84}}
    document = {
        "format": "frn-project",
        "version": 1,
        "model": model,
        "classes": [{"id": 1, "name": "c", "images": photos}],
    }
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("b.frn.json", json.dumps(document))
        for name in (".bashrc", "x.sh", ".ssh/x.jpg"):
            archive.writestr(name, "more")
    bare.done("unpack", path=str(tmp_path / "b.zip"), folder=str(tmp_path / "b"))
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["b.frn.json"]


def test_bundle_of_the_maximum_size_is_unpacked_but_one_byte_more_is_refused(
    engine: Engine, birds: dict[str, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.done("bundle", path=str(tmp_path / "b.zip"), state=engine.state(birds))
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        size = sum(member.file_size for member in archive.infolist())
    for free, name in ((size - 1, "little"), (size, "enough")):
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, free=free: SimpleNamespace(free=free))
        end = engine.ask("unpack", path=str(tmp_path / "b.zip"), folder=str(tmp_path / name)).end
        assert ("MiB free" in end.get("reason", "")) == (free < size) != (tmp_path / name).exists()


def test_a_file_that_is_not_a_bundle_is_refused(engine: Engine, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "no.zip", "w") as archive:
        archive.writestr("photo.jpg", "x")
    for name, members in (("deep.zip", ["a/b/c.frn.json"]), ("two.zip", ["a.frn.json", "b.frn.json"])):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member in members:
                archive.writestr(member, "{}")
    (tmp_path / "text.zip").write_text("no zip")
    os.mkfifo(tmp_path / "pipe.zip")
    for name, reason in (
        ("no.zip", "is not a bundle: it should contain one project (.frn.json), not 0"),
        ("deep.zip", "is not a bundle"),
        ("two.zip", "not 2"),
        ("text.zip", "cannot be unpacked"),
        ("gone.zip", "No such file"),
        ("pipe.zip", "is not a regular file"),
    ):
        assert reason in engine.ask("unpack", path=str(tmp_path / name), folder=str(tmp_path / "new")).reason
    assert not (tmp_path / "new").exists()


def test_moved_photos_are_found_by_content_under_any_name(
    engine: Engine, birds: dict[str, list[Path]], tmp_path: Path
) -> None:
    state = engine.state(birds)
    supports = [one for entry in state["classes"] for one in entry["supports"]]
    paths = [one["path"] for one in supports]
    new = tmp_path / "new" / "deep"
    new.mkdir(parents=True)
    for number, path in enumerate(paths[1:]):
        shutil.move(path, new / f"other name {number}.png")
    (new / "loop").symlink_to(tmp_path / "new")
    assert list(engine.done("stamp", paths=paths)) == paths[:1]
    sizes = {one["key"]: one["size"] for one in supports[1:]}
    found = engine.done("relocate", folder=str(tmp_path / "new"), sizes=sizes)
    assert found.keys() == sizes.keys()
    assert all(Path(one["path"]).is_relative_to(new) for one in found.values())
    assert "is not a folder" in engine.ask("relocate", folder="/nowhere", sizes=sizes).reason


def test_a_box_is_bundled_as_a_photo_and_found_again_after_a_move(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    (tmp_path / "old").mkdir()
    photo = Path(shutil.copy(next(iter(members.values()))[0], tmp_path / "old" / "one.png"))
    state = engine.state({"jay": [Path(f"{photo}#xywh=2,3,20,10")]})
    (support,) = state["classes"][0]["supports"]
    engine.done("bundle", path=str(tmp_path / "b"), state=state)
    copy = tmp_path / "b" / "jay" / "one.png"
    with Image.open(copy) as image:
        assert image.size == (20, 10)
    assert content(engine.done("load", path=str(tmp_path / "b" / "b.frn.json"))["state"]) == content(state)
    new = tmp_path / "new" / "two.png"
    new.parent.mkdir()
    photo.rename(new)
    assert not engine.done("stamp", paths=[support["path"]])
    sizes = {support["key"]: support["size"]}
    found = engine.done("relocate", folder=str(new.parent), sizes=sizes, boxes=["#xywh=2,3,20,10"])
    assert found[support["key"]]["path"] == f"{new}#xywh=2,3,20,10"
