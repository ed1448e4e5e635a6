"""Files that belong together appear together."""

import itertools
import os
from pathlib import Path

import pytest

from frn.errors import FrnError
from frn.system import file_sets, files
from frn.system.file_sets import write_set
from frn.system.files import remove_abandoned, write_atomically
from tests.killing import killed_at

OLD = {"a.onnx": b"old a", "b.onnx": b"old b", "c.onnx": b"old c"}
NEW = {"a.onnx": b"new a", "b.onnx": b"new b"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "JUST_MADE", 0.0)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("there", [True, False])
def test_killed_at_any_step_the_set_is_the_old_or_the_new_one(tmp_path: Path, there: bool) -> None:
    seen = set()
    for step in itertools.count():
        home = tmp_path / f"{step}"
        home.mkdir()
        out = home / "out"
        if there:
            write_set(out, OLD)
            (out / "mine.txt").write_bytes(b"notes")
        was_killed = killed_at(step, lambda out=out: write_set(out, NEW, instead_of=["c.onnx"]))  # type: ignore[misc]
        found = content(out) if out.exists() else {}
        assert found.pop("mine.txt", None) == (b"notes" if there else None)
        assert found in ([OLD, NEW] if there else [{}, NEW])
        seen.add(len(found))
        write_set(out, NEW, instead_of=["c.onnx"])
        assert [entry.name for entry in home.iterdir()] == ["out"]
        assert {name for name in content(out) if name != "mine.txt"} == set(NEW)
        if not was_killed:
            break
    assert step >= 5
    assert len(seen) == 2


def test_folders_and_what_cannot_be_linked_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    write_set(out, OLD)
    (out / "below").mkdir()
    (out / "below" / "x").write_bytes(b"x")
    write_set(out, NEW, instead_of=["c.onnx"])
    assert (content(out), (out / "below" / "x").read_bytes()) == (NEW, b"x")
    monkeypatch.setattr(file_sets, "_exchange", lambda *_: (_ for _ in ()).throw(OSError("not here")))
    write_set(out, OLD)
    assert content(out) == OLD
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_set_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path / "out", OLD)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FrnError, match=r"out: cannot be written \(No space left on device\)"):
        write_set(tmp_path / "out", NEW)
    assert content(tmp_path / "out") == OLD
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(os.name == "nt", reason="no locks that end with a process there")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_what_a_killed_program_left_is_swept_and_what_another_is_writing_is_not(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for step in range(3):
        killed_at(step, lambda: write_atomically(path, "{}"))
    stale = [entry for entry in tmp_path.iterdir() if entry != path]
    assert stale
    held = tmp_path / ".x.json.0123abcd"
    with held.open("w") as file:
        files._hold(file.fileno())
        for other in (".x.json.0123abc", ".y.json.0123abcd", "x.json.0123abcd"):
            (tmp_path / other).touch()
        remove_abandoned(tmp_path, ["x.json"])
        assert held.exists()
    assert not any(entry.exists() for entry in stale)
    remove_abandoned(tmp_path, ["x.json"])
    assert not held.exists()
    assert (tmp_path / ".y.json.0123abcd").exists()
