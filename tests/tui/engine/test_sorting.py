"""Photos sorted into folders, and the example that an answer rests on."""

import errno
from pathlib import Path

import numpy as np
import pytest
from frn_tui.engine.files.sorting import _put

from tests.tui.engine.conftest import Engine, first


def test_photos_are_copied_into_folders_and_nothing_is_overwritten(bare: Engine, tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "out"
    for folder, text in (("a", "1"), ("b", "2")):
        (home / folder).mkdir(parents=True)
        (home / folder / "x.jpg").write_text(text)
    photos = [[str(home / "a" / "x.jpg"), "../jay"], [str(home / "b" / "x.jpg"), "../jay"], ["/nowhere/x.jpg", "owl"]]
    for _ in range(2):  # the second time all is there already
        done = bare.done("sort", folder=str(out), photos=photos)
        assert [path for path, _ in done["failed"]] == ["/nowhere/x.jpg"]
        (jay,) = [path for path in out.iterdir() if path.name != "owl"]
        assert jay.parent == out
        assert sorted(path.name for path in jay.iterdir())[0] == "x-2.jpg"
        assert {path.read_text() for path in jay.iterdir()} == {"1", "2"}
    assert (home / "a" / "x.jpg").read_text() == "1"
    moved = bare.done("sort", folder=str(tmp_path / "new"), photos=photos[:1], move=True)["places"]
    assert not (home / "a" / "x.jpg").exists()
    assert Path(moved[photos[0][0]]).read_text() == "1"
    path = photos[1][0]
    done = bare.done("sort", folder=str(out), photos=[[path, "owl"]], verdicts=["Owl", "owl"])  # two folders
    assert Path(done["places"][path]).parent.name == "owl-2"
    (tmp_path / "file").touch()
    assert "is a file" in bare.ask("sort", folder=str(tmp_path / "file"), photos=photos).reason


def test_a_photo_that_is_there_already_by_a_link_is_not_lost(bare: Engine, tmp_path: Path) -> None:
    photo, link = tmp_path / "x.jpg", tmp_path / "out" / "jay" / "x.jpg"
    photo.write_text("1")
    link.parent.mkdir(parents=True)
    link.symlink_to(photo)
    done = bare.done("sort", folder=str(tmp_path / "out"), photos=[[str(photo), "jay"]], move=True)
    assert done["places"] == {str(photo): str(link)}
    assert photo.read_text() == link.read_text() == "1"


def test_a_link_is_moved_with_what_it_leads_to(bare: Engine, tmp_path: Path) -> None:
    photo, link = tmp_path / "x.jpg", tmp_path / "link.jpg"
    photo.write_text("1")
    link.symlink_to("x.jpg")  # from another folder it leads nowhere
    done = bare.done("sort", folder=str(tmp_path / "out"), photos=[[str(link), "jay"]], move=True)
    assert Path(done["places"][str(link)]).read_text() == photo.read_text() == "1"
    assert not link.is_symlink()


def test_nothing_is_written_through_a_link_that_leads_nowhere(bare: Engine, tmp_path: Path) -> None:
    photo, link = tmp_path / "x.jpg", tmp_path / "out" / "jay" / "x.jpg"
    photo.write_text("1")
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere.jpg")
    (place,) = bare.done("sort", folder=str(tmp_path / "out"), photos=[[str(photo), "jay"]])["places"].values()
    assert Path(place).read_text() == "1"
    assert not (tmp_path / "elsewhere.jpg").exists()


@pytest.mark.parametrize("move", [False, True])
def test_a_full_disk_leaves_no_half_of_a_photo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: bool) -> None:
    def full(source: Path, target: Path, **_: object) -> None:
        Path(target).write_bytes(b"ha")
        raise OSError(errno.ENOSPC, "No space left on device")

    def another_disk(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    photo = tmp_path / "x.jpg"
    photo.write_text("half")
    monkeypatch.setattr("shutil.copyfile", full)
    monkeypatch.setattr("os.rename", another_disk)
    with pytest.raises(OSError, match="No space left"):
        _put(photo, tmp_path / "jay", move=move)
    assert photo.read_text() == "half"
    assert not any((tmp_path / "jay").iterdir())


def test_the_nearest_example_is_of_the_class_that_was_named(engine: Engine, members: dict[str, list[Path]]) -> None:
    state = engine.state(first(members, 4))
    engine.done("classes", state=state)
    keys = {entry["id"]: [support["key"] for support in entry["supports"]] for entry in state["classes"]}
    paths = [str(paths[number]) for paths in members.values() for number in (5, 6)]
    for answer in engine.ask("query", paths=paths).told("answer"):
        assert answer["nearest"] in keys[answer["scores"][0]["id"]]
    example = state["classes"][1]["supports"][2]
    (answer,) = engine.ask("query", paths=[example["path"]]).told("answer")
    assert answer["scores"][0]["id"] == state["classes"][1]["id"]
    assert answer["nearest"] == example["key"]  # nothing is more like a photo than itself
    assert np.isfinite(answer["scores"][0]["error"])
