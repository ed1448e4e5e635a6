"""Bundles of projects with their photos, and moved photos."""

import json
import os
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from frn_tui.client.protocol import EXISTS
from frn_tui.engine.files import scan
from PIL import Image

from frn.features.feature_cache import content_key
from frn.images.opening import read_file
from frn.models.zoo import shipped_extractors
from tests.tui.engine.conftest import Engine, first

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
    state["others"] = [state["classes"].pop()["supports"][0]]
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
    assert (loaded["state"]["threshold"], loaded["has_changed"]) == (0.3, False)
    paths = [one["path"] for entry in loaded["state"]["classes"] for one in entry["supports"]]
    assert list(engine.done("stamp", paths=paths)) == paths
    assert all(Path(path).resolve().is_relative_to(place / "birds") for path in paths)
    (other,) = loaded["state"]["others"]
    assert other["key"] == state["others"][0]["key"]
    assert Path(other["path"]).resolve().is_relative_to(place / "birds" / "none of these")
    assert Path(other["path"]).is_file()
    assert not list(place.rglob("*.onnx"))  # the model is shipped
    assert not list(place.glob(".*")) + list((tmp_path / "out").glob(".*"))


def test_bundle_includes_a_model_that_is_not_shipped(
    bare: Engine, birds: dict[str, list[Path]], tmp_path: Path
) -> None:
    own = Path(shutil.copy(shipped_extractors()["conv4"], tmp_path / "mine.onnx"))
    bare.done("open_model", model=str(own))
    bare.done("bundle", path=str(tmp_path / "b"), state=bare.state(birds))
    own.unlink()
    loaded = bare.done("load", path=str(tmp_path / "b" / "b.frn.json"))
    assert loaded["has_changed"]  # the file of the open model
    assert bare.done("open_model", model=loaded["model"])["sha256"] == loaded["sha256"]


def test_bundle_is_complete_or_absent(engine: Engine, birds: dict[str, list[Path]], tmp_path: Path) -> None:
    state = engine.state(birds)
    target = tmp_path / "b.zip"
    target.write_text("something else")
    assert "already exists" in engine.ask("bundle", path=str(target), state=state).reason
    one = {**state, "classes": state["classes"][:1]}
    cancelled = engine.ask("bundle", cancel_at="progress", path=str(target), state=one, replace=True)
    assert cancelled.end["end"] == "cancelled"
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
        for n, name in enumerate((".bashrc", "x.sh", ".ssh/x.jpg", "../y.jpg", "birds/jay/z.jpg"))
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
        for name in (".bashrc", "x.sh", ".ssh/x.jpg", "birds/jay/z.jpg"):
            archive.writestr(name, "more")
    bare.done("unpack", path=str(tmp_path / "b.zip"), folder=str(tmp_path / "b"))
    assert {path.name for path in (tmp_path / "b").rglob("*.*")} == {"b.frn.json", "z.jpg"}


def test_bundle_of_the_maximum_size_is_unpacked_but_one_byte_more_is_refused(
    engine: Engine, birds: dict[str, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.done("bundle", path=str(tmp_path / "b.zip"), state=engine.state(birds))
    with zipfile.ZipFile(tmp_path / "b.zip", "a") as archive:
        archive.writestr("filler", bytes(5 << 20))
        size = sum(member.file_size for member in archive.infolist())
    for free, name in ((size - 1, "little"), (size, "enough")):
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, free=free: SimpleNamespace(free=free))
        end = engine.ask("unpack", path=str(tmp_path / "b.zip"), folder=str(tmp_path / name)).end
        assert (
            (f"needs 5 MiB, but {tmp_path} has 5 MiB free" in end.get("reason", ""))
            == (free < size)
            != (tmp_path / name).exists()
        )


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
    reason = engine.ask("relocate", folder="/nowhere", sizes=sizes).reason
    assert reason == "/nowhere: is not a folder; choose the folder to search"


def test_a_box_is_bundled_as_a_photo_and_found_again_after_a_move(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    (tmp_path / "old").mkdir()
    photo = Path(shutil.copy(next(iter(members.values()))[0], tmp_path / "old" / "one.jpg"))
    state = engine.state({"jay": [Path(f"{photo}#xywh=2,3,20,10")]})
    (support,) = state["classes"][0]["supports"]
    engine.done("bundle", path=str(tmp_path / "b"), state=state)
    copy = tmp_path / "b" / "jay" / "one.png"
    with Image.open(copy) as image:
        assert image.size == (20, 10)
    loaded = engine.done("load", path=str(tmp_path / "b" / "b.frn.json"))["state"]
    assert content(loaded) == content(state)
    assert Path(loaded["classes"][0]["supports"][0]["path"]).name == "one.png"
    new = tmp_path / "new" / "two.png"
    new.parent.mkdir()
    photo.rename(new)
    assert not engine.done("stamp", paths=[support["path"]])
    sizes = {support["key"]: support["size"]}
    found = engine.done("relocate", folder=str(new.parent), sizes=sizes, boxes=["#xywh=2,3,20,10"])
    assert found[support["key"]]["path"] == f"{new}#xywh=2,3,20,10"


def test_message_about_a_folder_or_file_that_cannot_be_used(bare: Engine, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").touch()
    os.mkfifo(tmp_path / "pipe.png")
    for name, reason in (
        ("empty", "has no class folders with photos. It needs a folder of images per class."),
        ("pipe.png", "is not a regular file"),
        ("text.txt", "is not a folder, an image ("),
    ):
        assert bare.done("scan", path=str(tmp_path / name))["reason"].startswith(f"{tmp_path / name}: {reason}")
    assert bare.done("scan", path=" ")["reason"] == "no path given"


def test_folder_that_cannot_be_listed_is_reported(
    bare: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: str) -> object:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "x").mkdir()
    monkeypatch.setattr(os, "scandir", refuse)
    assert bare.done("scan", path=str(tmp_path / "x"))["reason"] == (
        f"{tmp_path / 'x'}: cannot be listed (Permission denied)"
    )
    assert "cannot be listed (Permission denied)" in bare.ask("list", path=str(tmp_path / "x")).reason
    assert bare.done("folders", path=str(tmp_path / "x")) == []


def test_sorting_reports_what_is_not_a_file(bare: Engine, tmp_path: Path) -> None:
    photo, folder = tmp_path / "a.jpg", tmp_path / "folder.jpg"
    photo.write_text("1")
    folder.mkdir()
    done = bare.sort(folder=str(tmp_path / "out"), photos=[[str(photo), "jay"], [str(folder), "jay"]])
    assert done["failed"] == [[str(folder), "is not a regular file"]]
    assert (done["journal"], done["twins"]) == ("", [])
    file = tmp_path / "out" / "jay" / "a.jpg"
    again = bare.sort(folder=str(tmp_path / "out"), photos=[[str(file), "jay"]], move=True)
    assert again["places"] == {str(file): str(file)}  # it is there already
    assert (again["twins"], file.read_text()) == ([], "1")
    reason = bare.ask("sort", folder=str(photo), path=str(photo), verdict="a", verdicts=["a"]).reason
    assert reason == f"{photo}: is a file; choose a folder"


def test_journal_that_cannot_be_created_stops_a_move(bare: Engine, tmp_path: Path, state_folder: Path) -> None:
    photo = tmp_path / "a.jpg"
    photo.write_text("1")
    state_folder.mkdir(parents=True, exist_ok=True)
    (state_folder / "moved").write_text("a file")
    arguments: dict[str, Any] = {"path": str(photo), "verdict": "jay", "verdicts": ["jay"]}
    reason = bare.ask("sort", folder=str(tmp_path / "out"), move=True, **arguments).reason
    assert reason.startswith(f"{state_folder / 'moved'}")
    assert reason.endswith("; no photo was moved")
    assert photo.exists()


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


def test_bundle_where_nothing_can_be_written_gives_the_reason(engine: Engine, state: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "b.zip"
    reason = engine.ask("bundle", path=str(path), state=state).reason
    assert reason == f"{path}: cannot be written (File exists)"


def test_search_ends_with_the_last_photo_and_reports_each(
    bare: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counting(path: Path) -> bytes:
        read.append(path.name)
        return read_file(path)

    (tmp_path / "in").mkdir()
    for name, text in (("1.png", "one"), ("2.png", "xyz"), ("3.png", "longer"), ("4.png", "four")):
        (tmp_path / "in" / name).write_text(text)
    monkeypatch.setattr(scan, "read_file", counting)
    sizes: dict[str, Any] = {content_key(b"one"): 3, content_key(b"longer"): 6}
    asked = bare.ask("relocate", folder=str(tmp_path / "in"), sizes=sizes)
    assert {key: Path(each["path"]).name for key, each in asked.end["result"].items()} == {
        content_key(b"one"): "1.png",
        content_key(b"longer"): "3.png",
    }
    assert [(event["done"], event["total"]) for event in asked.told("progress")] == [(1, 2), (2, 2)]
    assert read == ["1.png", "2.png", "3.png"]
