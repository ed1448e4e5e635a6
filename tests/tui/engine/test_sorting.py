"""Photos sorted into folders, and the nearest example of an answer."""

import errno
import itertools
import json
import os
import sys
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from frn_tui.engine.files import moves, placing, sorting
from frn_tui.engine.files.moves import MoveJournal
from frn_tui.engine.operations import build_handlers

from frn.errors import FrnWarning
from frn.system.files import LOCK, beside
from frn.system.processes import locks
from frn.system.processes.locks import Lock
from tests.killing import killed_at
from tests.tui.engine.conftest import Engine


@pytest.mark.parametrize("named_so", [False, True])
def test_of_a_box_the_whole_photo_is_moved_and_moved_back_unless_a_file_is_named_so(
    bare: Engine, tmp_path: Path, named_so: bool
) -> None:
    name = str(tmp_path / "x.jpg#xywh=1,2,3,4")
    photo = Path(name) if named_so else tmp_path / "x.jpg"
    photo.write_text("1")
    done = bare.sort(folder=str(tmp_path / "out"), photos=[[name, "jay"]], move=True)
    ((_, place),) = done["places"].items()
    file = Path(place) if named_so else tmp_path / "out" / "jay" / "x.jpg"
    assert named_so or place == f"{file}#xywh=1,2,3,4"
    assert (file.read_text(), photo.exists()) == ("1", False)
    bare.done("move", journal=done["journal"], source=place, target=name, is_twin=False, back=True)
    assert (photo.read_text(), [path.name for path in tmp_path.glob("x*")]) == ("1", [photo.name])


def test_photos_are_copied_into_folders_and_nothing_is_overwritten(bare: Engine, tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "out"
    for folder, text in (("a", "1"), ("b", "2")):
        (home / folder).mkdir(parents=True)
        (home / folder / "x.jpg").write_text(text)
    photos = [[str(home / "a" / "x.jpg"), "../jay"], [str(home / "b" / "x.jpg"), "../jay"], ["/nowhere/x.jpg", "owl"]]
    for _ in range(2):  # all files already exist the second time
        done = bare.sort(folder=str(out), photos=photos)
        assert [path for path, _ in done["failed"]] == ["/nowhere/x.jpg"]
        (jay,) = [path for path in out.iterdir() if path.name != "owl"]
        assert jay.parent == out
        assert sorted(path.name for path in jay.iterdir())[0] == "x-2.jpg"
        assert {path.read_text() for path in jay.iterdir()} == {"1", "2"}
    assert (home / "a" / "x.jpg").read_text() == "1"
    moved = bare.sort(folder=str(tmp_path / "new"), photos=photos[:1], move=True)["places"]
    assert not (home / "a" / "x.jpg").exists()
    assert Path(moved[photos[0][0]]).read_text() == "1"
    path = photos[1][0]
    done = bare.sort(folder=str(out), photos=[[path, "owl"]], verdicts=["Owl", "owl"])  # two folders
    assert Path(done["places"][path]).parent.name == "owl-2"
    (tmp_path / "file").touch()
    arguments: dict[str, Any] = {"path": path, "verdict": "owl", "verdicts": ["owl"]}
    assert "is a file" in bare.ask("sort", folder=str(tmp_path / "file"), **arguments).reason


def test_photos_of_a_zip_are_copied_but_not_moved(bare: Engine, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "day.zip", "w") as archive:
        archive.writestr("walk/x.jpg", "1")
    inside, gone = str(tmp_path / "day.zip" / "walk" / "x.jpg"), str(tmp_path / "day.zip" / "y.jpg")
    for _ in range(2):  # the second copy is the same photo
        done = bare.sort(folder=str(tmp_path / "out"), photos=[[inside, "jay"], [gone, "jay"]])
        assert done["places"] == {inside: str(tmp_path / "out" / "jay" / "x.jpg")}
        assert [path for path, _ in done["failed"]] == [gone]
    assert Path(done["places"][inside]).read_text() == "1"
    moved = bare.sort(folder=str(tmp_path / "new"), photos=[[inside, "jay"]], move=True)
    assert moved["failed"] == [[inside, "is in a zip, so it can only be copied"]]


def test_photo_already_present_through_a_link_is_not_lost(bare: Engine, tmp_path: Path) -> None:
    photo, link = tmp_path / "x.jpg", tmp_path / "out" / "jay" / "x.jpg"
    photo.write_text("1")
    link.parent.mkdir(parents=True)
    link.symlink_to(photo)
    done = bare.sort(folder=str(tmp_path / "out"), photos=[[str(photo), "jay"]], move=True)
    assert (done["places"], done["twins"]) == ({str(photo): str(link)}, [])
    assert photo.read_text() == link.read_text() == "1"


def test_a_moved_link_still_leads_to_its_target(bare: Engine, tmp_path: Path) -> None:
    photo, link = tmp_path / "x.jpg", tmp_path / "link.jpg"
    photo.write_text("1")
    link.symlink_to("x.jpg")  # from another folder the path is invalid
    done = bare.sort(folder=str(tmp_path / "out"), photos=[[str(link), "jay"]], move=True)
    assert Path(done["places"][str(link)]).read_text() == photo.read_text() == "1"
    assert not link.is_symlink()


def test_dangling_link_is_not_written_through(bare: Engine, tmp_path: Path) -> None:
    photo, link = tmp_path / "x.jpg", tmp_path / "out" / "jay" / "x.jpg"
    photo.write_text("1")
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere.jpg")
    (place,) = bare.sort(folder=str(tmp_path / "out"), photos=[[str(photo), "jay"]])["places"].values()
    assert Path(place).read_text() == "1"
    assert not (tmp_path / "elsewhere.jpg").exists()


@pytest.mark.parametrize("move", [False, True])
def test_full_disk_leaves_no_partial_photo(bare: Engine, tmp_path: Path, other_disk: Path, move: bool) -> None:
    photo, out = tmp_path / "x.jpg", other_disk / "out"
    photo.write_bytes(os.urandom(700 << 10))
    content = photo.read_bytes()
    (other_disk / "filler").write_bytes(bytes(500 << 10))
    done = bare.sort(folder=str(out), photos=[[str(photo), "jay"]], move=move)
    assert done["failed"] == [[str(photo), "No space left on device"]]
    assert photo.read_bytes() == content
    assert not any((out / "jay").iterdir())


def test_photos_move_to_another_disk_and_back(bare: Engine, tmp_path: Path, other_disk: Path) -> None:
    photo = tmp_path / "x.jpg"
    photo.write_text("1")
    os.utime(photo, (1e9, 1e9))
    done = bare.sort(folder=str(other_disk), photos=[[str(photo), "jay"]], move=True)
    place = other_disk / "jay" / "x.jpg"
    assert done["places"] == {str(photo): str(place)}
    assert (place.read_text(), place.stat().st_mtime) == ("1", 1e9)
    assert not photo.exists()
    back = bare.move(journal=done["journal"], photos=[[str(photo), str(place), False]], back=True)
    assert back["places"] == {str(place): str(photo)}
    assert (photo.read_text(), photo.stat().st_mtime) == ("1", 1e9)
    assert not place.exists()


def test_edited_photo_of_the_same_size_and_time_is_kept(bare: Engine, tmp_path: Path) -> None:
    photo, there = tmp_path / "x.jpg", tmp_path / "out" / "jay" / "x.jpg"
    there.parent.mkdir(parents=True)
    sort: dict[str, Any] = {"folder": str(tmp_path / "out"), "photos": [[str(photo), "jay"]]}
    for path in (photo, there):
        path.write_text("old")
        os.utime(path, (1e9, 1e9))
    bare.sort(**sort)  # the two copies are compared
    photo.write_text("new")
    os.utime(photo, (1e9, 1e9))
    done = bare.sort(**sort, move=True)
    assert Path(done["places"][str(photo)]).read_text() == "new"
    assert there.read_text() == "old"


def test_photo_that_changes_during_a_copy_is_kept(
    tmp_path: Path, other_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo, place = tmp_path / "x.jpg", other_disk / "x.jpg"
    photo.write_text("old")

    def edited(one: Path, other: Path) -> None:
        rename(one, other)
        if other == place:
            photo.write_text("new")

    rename = placing.rename_new
    monkeypatch.setattr(placing, "rename_new", edited)
    with pytest.raises(OSError, match="changed during the copy"):
        placing.move_new(photo, place)
    assert photo.read_text() == "new"
    assert not place.exists()


def test_copy_is_kept_if_the_photo_is_removed_during_the_move(
    tmp_path: Path, other_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo, place = tmp_path / "x.jpg", other_disk / "x.jpg"
    photo.write_text("1")

    def removed(folder: Path) -> None:
        photo.unlink()

    monkeypatch.setattr(placing, "sync_path", removed)
    placing.move_new(photo, place)
    assert place.read_text() == "1"


@pytest.mark.parametrize("has_system_call", [True, False])
def test_file_created_by_a_second_program_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_system_call: bool
) -> None:
    """Two memory cards each contain an IMG_1.jpg, and two programs sort them into the same class."""
    if not has_system_call:
        monkeypatch.setattr(placing, "rename_no_replace", _unsupported)
    photos = [tmp_path / card / "IMG_1.jpg" for card in ("a", "b")]
    for photo in photos:
        photo.parent.mkdir()
        photo.write_text(str(photo))
    move = placing.move_new
    monkeypatch.setenv("FRN_STATE", str(tmp_path / "state"))

    def late(source: Path, target: Path) -> None:
        monkeypatch.setattr(sorting, "move_new", move)
        sorting.put(photos[1], tmp_path / "jay", MoveJournal())  # the other program writes the file
        move(source, target)

    monkeypatch.setattr(sorting, "move_new", late)
    sorting.put(photos[0], tmp_path / "jay", MoveJournal())
    assert {path.read_text() for path in (tmp_path / "jay").iterdir()} == set(map(str, photos))


def _unsupported(source: Path, target: Path) -> None:
    raise OSError(errno.ENOSYS, "Function not implemented")


def test_photos_can_be_moved_back_and_existing_files_are_kept(bare: Engine, tmp_path: Path) -> None:
    paths = [tmp_path / card / "x.jpg" for card in "abc"]
    for path, content in zip(paths, "112", strict=True):
        path.parent.mkdir()
        path.write_text(content)
    done = bare.sort(folder=str(tmp_path / "out"), photos=[[str(path), "jay"] for path in paths], move=True)
    assert done["twins"] == [str(paths[1])]
    assert not any(path.exists() for path in paths)
    paths[0].parent.rmdir()
    paths[2].write_text("3")
    photos = [[path, place, path in done["twins"]] for path, place in done["places"].items()][::-1]
    back = bare.move(journal=done["journal"], photos=photos, back=True)
    assert [path.read_text() for path in paths] == ["1", "1", "3"]
    assert back["failed"] == [[str(tmp_path / "out/jay/x-2.jpg"), f"was not moved: {paths[2]} already exists"]]
    assert (tmp_path / "out/jay/x-2.jpg").read_text() == "2"
    again = bare.move(journal=done["journal"], photos=photos[::-1], back=False)
    assert again["places"].keys() == set(map(str, paths[:2]))
    assert [path.exists() for path in paths] == [False, False, True]


@pytest.mark.parametrize("move", [False, True])
def test_locked_photo_fails_without_stopping_the_others(
    bare: Engine, tmp_path: Path, other_disk: Path, monkeypatch: pytest.MonkeyPatch, move: bool
) -> None:
    monkeypatch.setattr(locks, "WARN_AFTER", 0.05)
    monkeypatch.setitem(locks.lock.__wrapped__.__kwdefaults__, "give_up_after", 0.1)  # type: ignore[attr-defined]
    for name in ("x.jpg", "y.jpg"):
        (tmp_path / name).write_text(name)
    held = Lock(beside(other_disk / "jay" / "x.jpg", LOCK))
    (other_disk / "jay").mkdir()
    assert held.acquire()
    photos = [[str(tmp_path / name), "jay"] for name in ("x.jpg", "y.jpg")]
    try:
        with pytest.warns(FrnWarning, match="waiting for process"):
            done = bare.sort(folder=str(other_disk), photos=photos, move=move)
    finally:
        held.release()
    ((failed, reason),) = done["failed"]
    assert failed == str(tmp_path / "x.jpg")
    assert "is still writing this file. Wait until it ends" in reason
    assert (tmp_path / "x.jpg").read_text() == "x.jpg"
    assert (other_disk / "jay" / "y.jpg").read_text() == "y.jpg"


@pytest.mark.parametrize("kind", ["copy", "move", "link", "twin"])
def test_photo_is_synced_before_the_original_is_removed(
    bare: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The file is synced first, then its folder entry and that of each new folder."""
    card, out = tmp_path / "card", tmp_path / "out"
    photo, place = card / "x.jpg", out / "jay" / "x.jpg"
    card.mkdir()
    _prepare(kind if kind == "link" else "move", photo, card / "unused")
    if kind == "twin":
        place.parent.mkdir(parents=True)
        place.write_text("photo")
    steps: list[tuple[str, int]] = []
    written: dict[int, int] = {}  # bytes of each file when it was last synced
    fsync, unlink = os.fsync, os.unlink

    def synced(descriptor: int) -> None:
        status = os.fstat(descriptor)
        steps.append(("synced", status.st_ino))
        written[status.st_ino] = status.st_size
        fsync(descriptor)

    def removed(path: Path, **options: Any) -> None:
        if Path(path) == photo:
            steps.append(("removed", 0))
        unlink(path, **options)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "unlink", removed)
    done = bare.sort(folder=str(out), photos=[[str(photo), "jay"]], move=kind != "copy")
    before = steps[: steps.index(("removed", 0))] if kind in ("link", "twin") else steps
    numbers = [inode for _, inode in before]
    wanted = [] if kind == "move" else [place.stat().st_ino, place.parent.stat().st_ino]
    assert [inode for inode in numbers if inode in wanted][-2:] == wanted
    if kind != "twin":
        assert {out.stat().st_ino, tmp_path.stat().st_ino} <= set(numbers)
    if kind != "copy":
        journal = Path(done["journal"])
        assert {journal.stat().st_ino, journal.parent.stat().st_ino} <= set(numbers)
        assert written[journal.stat().st_ino] == journal.stat().st_size


def test_the_journal_lists_moves_and_ignores_incomplete_and_changed_lines(bare: Engine, tmp_path: Path) -> None:
    photo = tmp_path / "ü\udcff.jpg"
    photo.write_text("1")
    (tmp_path / "out" / "jay").mkdir(parents=True)
    done = bare.sort(folder=str(tmp_path / "out"), photos=[[str(photo), "jay"]], move=True)
    journal = Path(done["journal"])
    assert "/ü\\udcff.jpg".encode() in journal.read_bytes()
    assert journal.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in journal.read_bytes().splitlines()]
    assert [(next(iter(line)), *list(line.values())[:2]) for line in lines] == [
        (kind, str(photo), done["places"][str(photo)]) for kind in ("move", "moved")
    ]
    photo.write_text("2")
    whole = journal.read_bytes().splitlines(keepends=True)[0].replace(b'"process"', b'"process" ')
    journal.write_bytes(whole.replace(b"jay", b"owl") + b'{"move": "/x')
    assert bare.done("settle")[0] == {}
    bare.sort(folder=str(tmp_path / "out"), photos=[[str(photo), "jay"]], move=True, journal=str(journal))
    assert journal.read_bytes().splitlines()[1] == b'{"move": "/x'


KINDS = ("move", "link", "twin", "disk", "no call")


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("back", [False, True])
def test_a_move_killed_at_any_step_is_finished_and_loses_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str, back: bool
) -> None:
    if kind == "no call":
        monkeypatch.setattr(placing, "rename_no_replace", _unsupported)
    root = request.getfixturevalue("other_disk") if kind == "disk" else tmp_path
    for step in itertools.count():
        monkeypatch.setenv("FRN_STATE", str(tmp_path / f"state {step}"))
        folder, photo = root / f"out {step}", tmp_path / f"{step}" / "x.jpg"
        photo.parent.mkdir()
        _prepare(kind, photo, folder)
        if back:
            place, is_twin = sorting.put(photo, folder, journal := MoveJournal())
            sort = partial(_back, place, photo, is_twin, journal.path)
        else:
            sort = partial(_sort, photo, folder)
        was_killed = killed_at(step, sort)
        assert "photo" in {_content(path) for path in (photo, *folder.rglob("*"))}
        bare = Engine(build_handlers(os.getpid()))
        assert bare.done("settle")[1] == []
        assert not bare.done("settle")[0]
        places = [path for path in (photo, *folder.rglob("*")) if _content(path) == "photo"]
        assert len(places) - 1 in ({0, 1} if kind in ("twin", "link") and photo.exists() else {0})
        if was_killed:
            sort()  # the user repeats the move
        assert photo.exists() == back
        assert photo.is_symlink() == (back and kind == "link")
        assert {path.name for path in (*folder.rglob("*"), *photo.parent.iterdir())} <= {"x.jpg", "original"}
        if not was_killed:
            break
    assert step >= 6


def _prepare(kind: str, photo: Path, folder: Path) -> None:
    photo.write_text("photo")
    folder.mkdir()
    if kind == "link":
        photo.rename(photo.with_name("original"))
        photo.symlink_to("original")
    if kind == "twin":
        (folder / "x.jpg").write_text("photo")


def _sort(photo: Path, folder: Path) -> None:
    if photo.exists():
        sorting.put(photo, folder, MoveJournal())


def _back(place: Path, photo: Path, is_twin: bool, journal: Path) -> None:
    sorting.step_over(place, photo, MoveJournal(str(journal)), back=True, is_twin=is_twin)


def _content(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def test_a_name_without_a_folder_is_renamed_in_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        (tmp_path / name).write_text(name)
    with pytest.raises(FileExistsError):
        placing.rename_new(Path("a"), Path("b"))
    if sys.platform == "linux":
        monkeypatch.delattr(os, "replace")  # it has a call that refuses to overwrite
    placing.rename_new(Path("a"), Path("c"))
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()} == {"b": "b", "c": "a"}


def test_the_newest_two_hundred_journals_are_kept(state_folder: Path) -> None:
    folder = state_folder / "moved"
    folder.mkdir(parents=True)
    for number in range(250):
        (folder / f"2020-01-01 00.00.00 {number:08x}.jsonl").touch()
    (folder / "notes.jsonl").touch()
    MoveJournal().write({"move": "a"})
    kept = sorted(path.name for path in folder.glob("*.jsonl") if path.name != "notes.jsonl")
    assert len(kept) == 200
    assert kept[0] == f"2020-01-01 00.00.00 {51:08x}.jsonl"
    assert (folder / "notes.jsonl").exists()


def test_a_photo_at_neither_path_after_a_kill_is_reported(tmp_path: Path) -> None:
    source, target = tmp_path / "a.jpg", tmp_path / "jay" / "a.jpg"
    journal = MoveJournal()
    journal.write({"move": str(source), "to": str(target), "bytes": 9})
    places, gone = MoveJournal(str(journal.path)).settle()
    assert (places, [path for path, _ in gone]) == ({}, [str(source)])
    assert f"is missing, and so is {target}" in gone[0][1]


def test_undo_that_was_done_already_succeeds_but_a_copy_in_the_way_is_reported(bare: Engine, tmp_path: Path) -> None:
    photo, place = tmp_path / "x.jpg", tmp_path / "out" / "jay" / "x.jpg"
    photo.write_text("1")
    (tmp_path / "out").mkdir()
    done = bare.sort(folder=str(tmp_path / "out"), photos=[[str(photo), "jay"]], move=True)
    undo: dict[str, Any] = {"journal": done["journal"], "photos": [[str(photo), str(place), False]], "back": True}
    assert bare.done("left", interrupted=True) is None  # there was no plan
    photo.write_text("1")  # somebody copied it back
    assert bare.move(**undo)["failed"] == [[str(place), f"was not moved: {photo} already exists"]]
    assert bare.done("left", interrupted=False) is None  # so it is not offered
    assert photo.read_text() == place.read_text() == "1"
    photo.unlink()
    for _ in range(2):
        assert bare.move(**undo)["places"] == {str(place): str(photo)}
        assert (photo.exists(), place.exists()) == (True, False)
        assert not beside(photo, LOCK).exists()
        beside(photo, LOCK).touch()  # as after a kill
    assert list((tmp_path / "out").iterdir()) == []  # the user's folder stays, that of the move does not
    photo.unlink()
    assert [path for path, _ in bare.move(**undo)["failed"]] == [str(place)]  # the photo is gone


def test_undo_stops_if_another_photo_has_taken_either_place(bare: Engine, tmp_path: Path) -> None:
    photos = [tmp_path / name for name in ("gone.jpg", "replaced.jpg", "twin.jpg")]
    there = tmp_path / "out" / "jay" / "twin.jpg"
    there.parent.mkdir(parents=True)
    for path in (*photos, there):
        path.write_text("1")
    done = bare.sort(folder=str(tmp_path / "out"), photos=[[str(path), "jay"] for path in photos], move=True)
    assert done["twins"] == [str(photos[2])]
    places = [Path(done["places"][str(path)]) for path in photos]
    places[0].unlink()
    photos[0].write_text("another")  # after its photo was removed
    places[1].unlink()
    places[1].write_text("another")
    photos[2].write_text("another")
    listed = [[str(path), str(place), path == photos[2]] for path, place in zip(photos, places, strict=True)]
    failed = dict(bare.move(journal=done["journal"], photos=listed, back=True)["failed"])
    assert failed == {
        str(places[0]): f"was not moved: {photos[0]} already exists",
        str(places[1]): "was not moved back: it is another photo now, or was edited",
        str(places[2]): f"was not moved: {photos[2]} already exists",
    }
    assert [path.read_text() for path in (photos[0], places[1], photos[2], places[2])] == ["another"] * 3 + ["1"]


@pytest.mark.parametrize("target", ["kept", "changed", "restored", "taken", "twin"])
def test_undo_restores_a_link_unless_it_leads_to_another_photo(
    bare: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    (tmp_path / "photo.jpg").write_text("1")
    (link := tmp_path / "link.jpg").symlink_to("photo.jpg")
    if target == "twin":
        (tmp_path / "out" / "jay").mkdir(parents=True)
        (tmp_path / "out" / "jay" / "link.jpg").write_text("1")
    done = bare.sort(folder=str(tmp_path / "out"), photos=[[str(link), "jay"]], move=True)
    if target == "changed":
        (tmp_path / "photo.jpg").write_text("2")
    if target in ("restored", "taken"):  # by an undo that was killed, or by another link
        link.symlink_to("photo.jpg" if target == "restored" else "2.jpg")
    photos, synced, fsync = [[str(link), done["places"][str(link)], target == "twin"]], list[int](), os.fsync

    def sync(file: int) -> None:
        synced.append(os.fstat(file).st_ino)
        fsync(file)

    monkeypatch.setattr(os, "fsync", sync)
    failed = bare.move(journal=done["journal"], photos=photos, back=True)["failed"]
    assert [reason for _, reason in failed] == [f"was not moved: {link} already exists"] * (target == "taken")
    if target == "taken":
        assert str(link.readlink()) == "2.jpg"
        return
    assert link.read_text() == "1"
    assert tmp_path.stat().st_ino in synced or target == "changed"
    assert link.is_symlink() == (target != "changed")
    assert (tmp_path / "out").exists() == (target == "twin")  # the folders of the move are empty again


def test_moves_left_by_a_killed_app_can_be_finished_or_taken_back(bare: Engine, tmp_path: Path) -> None:
    photos = [tmp_path / f"{number}.jpg" for number in range(4)]
    for path in photos:
        path.write_text(path.name)
    twin = tmp_path / "out" / "jay" / "1.jpg"
    twin.parent.mkdir(parents=True)
    twin.write_text("1.jpg")
    listed = [(str(path), "jay") for path in photos]
    listed[2] = (f"{photos[2]}#xywh=1,2,3,4", "jay")
    arguments: dict[str, Any] = {"folder": str(tmp_path / "out"), "verdicts": ["jay"]}
    planned = bare.done("plan", photos=listed, begin=True, **arguments)
    assert (planned["moves"], planned["folders"], planned["stay"], planned["taken"]) == (4, 1, 0, 1)
    bare.sort(photos=[[*one] for one in listed[:3]], move=True, journal=planned["journal"], **arguments)
    assert bare.done("left", interrupted=True) is None  # this app is still running
    owner = moves.owned.pop(Path(planned["journal"]))
    assert bare.done("left", interrupted=True) is None  # another program holds the lock
    owner.release()  # as by a kill
    left = bare.done("left", interrupted=True)
    assert [(path, is_twin) for path, _, is_twin in left["photos"]] == [
        (str(path), path == photos[1]) for path in photos[:3]
    ]
    assert left["rest"] == [[*listed[3]]]
    (tmp_path / "out" / "jay" / "mine.txt").write_text("mine")
    bare.move(journal=left["journal"], photos=left["photos"][:2], back=True)
    photos[2].write_text("new")
    assert bare.done("left", interrupted=True)["rest"] == [[*listed[number]] for number in (0, 1, 3)]
    photos[2].unlink()
    bare.done("end", journal=left["journal"])
    assert bare.done("left", interrupted=True) is None
    back = bare.done("left", interrupted=False)["photos"]
    assert [path for path, *_ in back] == [str(photos[2])]
    bare.move(journal=left["journal"], photos=back, back=True)
    assert [path.read_text() for path in photos] == [path.name for path in photos]
    assert bare.done("left", interrupted=False) is None
    assert {path.name for path in twin.parent.iterdir()} == {"1.jpg", "mine.txt"}


def test_moves_that_ended_can_be_taken_back_unless_the_photo_changed(bare: Engine, tmp_path: Path) -> None:
    photo, place = tmp_path / "x.jpg", tmp_path / "out" / "jay" / "x.jpg"
    photo.write_text("1")
    os.utime(photo, ns=(0, 10**18))
    arguments: dict[str, Any] = {"folder": str(tmp_path / "out"), "verdicts": ["jay"]}
    journal = bare.done("plan", photos=[(str(photo), "jay")], begin=True, **arguments)["journal"]
    bare.sort(photos=[[str(photo), "jay"]], move=True, journal=journal, **arguments)
    assert bare.done("left", interrupted=False) is None  # more photos may follow
    bare.done("end", journal=journal)
    photos = bare.done("left", interrupted=False)["photos"]
    for text in ("1", "edited before it was moved again"):
        for late, is_refused in ((2_000_000_001, True), (2_000_000_000, False)):  # some disks store every other second
            os.utime(place, ns=(0, 10**18 + late))
            assert bool(bare.move(journal=journal, photos=photos, back=True)["failed"]) == is_refused
        photo.write_text(text)
        os.utime(photo, ns=(0, 10**18))
        bare.move(journal=journal, photos=photos, back=False)
    assert place.read_text() == text


def test_a_plan_counts_what_stays_and_which_names_are_taken(bare: Engine, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a/x.jpg", "b/x.jpg", "a/y.jpg", "out/jay/z.jpg", "gone.jpg")]
    for path in (*paths[:4], tmp_path / "out/jay/y.jpg"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(path))
    photos = [(str(path), "jay") for path in paths]
    planned = bare.done("plan", folder=str(tmp_path / "out"), photos=photos, verdicts=["jay"], begin=False)
    assert planned == {"moves": 3, "folders": 1, "stay": 2, "taken": 2, "journal": ""}
