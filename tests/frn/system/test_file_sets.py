"""Files that belong together appear together."""

import itertools
import os
import shutil
from pathlib import Path

import pytest

from frn.errors import FrnError
from frn.system import file_sets
from frn.system.file_sets import new_folder, write_set
from tests.killing import killed_at
from tests.system_calls import record

OLD = {"a.onnx": b"old a", "b.onnx": b"old b", "c.onnx": b"old c"}
NEW = {"a.onnx": b"new a", "b.onnx": b"new b"}


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("there", [True, False])
def test_file_set_is_entirely_old_or_new_after_a_kill_at_any_step(tmp_path: Path, there: bool) -> None:
    seen = set()
    for step in itertools.count():
        home = tmp_path / f"{step}"
        home.mkdir()
        out = home / "out"
        if there:
            write_set(out, OLD)
        was_killed = killed_at(step, lambda out=out: write_set(out, NEW, instead_of=["c.onnx"]))  # type: ignore[misc]
        found = content(out) if out.exists() else {}
        assert found in ([OLD, NEW] if there else [{}, NEW])
        seen.add(len(found))
        write_set(out, NEW, instead_of=["c.onnx"])
        assert [entry.name for entry in home.iterdir()] == ["out"]
        assert content(out) == NEW
        if not was_killed:
            break
    assert step >= 5
    assert len(seen) == 2


def test_files_outside_the_set_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    write_set(out, OLD)
    (out / "below").mkdir()
    (out / "below" / "x").write_bytes(b"x")
    write_set(out, NEW, instead_of=["c.onnx"])
    assert (content(out), (out / "below" / "x").read_bytes()) == (NEW, b"x")
    write_set(tmp_path / "other", NEW)
    monkeypatch.setattr(file_sets, "_exchange", lambda *_: False)
    write_set(tmp_path / "other", OLD)
    assert content(tmp_path / "other") == OLD
    shutil.rmtree(tmp_path / "other")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_failed_write_keeps_the_old_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path / "out", OLD)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FrnError, match=r"out: cannot be written \(No space left on device\)"):
        write_set(tmp_path / "out", NEW, instead_of=["c.onnx"])
    assert content(tmp_path / "out") == OLD
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_files_are_complete_and_other_files_kept_after_a_kill_at_any_step(tmp_path: Path) -> None:
    for step in itertools.count():
        out = tmp_path / f"{step}" / "out"
        write_set(out, OLD)
        (out / "mine.txt").write_bytes(b"notes")
        was_killed = killed_at(step, lambda out=out: write_set(out, NEW, instead_of=["c.onnx"]))  # type: ignore[misc]
        found = {name: data for name, data in content(out).items() if not name.startswith(".")}
        assert found.pop("mine.txt") == b"notes"
        assert all(data in (OLD[name], NEW.get(name)) for name, data in found.items())
        write_set(out, NEW, instead_of=["c.onnx"])
        assert content(out) == {**NEW, "mine.txt": b"notes"}
        if not was_killed:
            break
    assert step >= 5


@pytest.mark.skipif(os.name == "nt", reason="a folder in use cannot be renamed there")
def test_the_current_folder_keeps_its_inode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path / "out", OLD)
    write_set(tmp_path / "out", OLD)
    monkeypatch.chdir(tmp_path / "out")
    before = (tmp_path / "out").stat().st_ino
    write_set(Path(), NEW, instead_of=["c.onnx"])
    assert content(Path()) == NEW
    assert (tmp_path / "out").stat().st_ino == before
    (tmp_path / "link").symlink_to(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    write_set(tmp_path / "link", OLD)
    assert (tmp_path / "link").is_symlink()
    assert content(tmp_path / "out") == OLD


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's names of descriptors")
def test_new_folder_is_synced_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = record(monkeypatch)
    with new_folder(tmp_path / "new") as work:
        (work / "below").mkdir()
        (work / "below" / "x").write_bytes(b"x")
    name = calls.index(("rename", "new"))
    assert set(calls[:name]) == {("sync", "x"), ("sync", "below"), ("sync", work.name)}
    assert calls[name + 1 :] == [("sync", tmp_path.name)]
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o777 & ~mask


def test_new_folder_never_replaces_another(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "x").write_bytes(b"x")
    with pytest.raises(FrnError, match="new: already exists"), new_folder(tmp_path / "new") as work:
        (work / "y").write_bytes(b"y")
    assert content(tmp_path / "new") == {"x": b"x"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["new"]
