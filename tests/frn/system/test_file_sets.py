"""Files that belong together appear together."""

import itertools
import os
import subprocess
from pathlib import Path

import pytest

from frn.errors import FrnError
from frn.system.file_sets import MANIFEST, new_folder, read_member, write_set
from tests.killing import killed_at
from tests.system_calls import record

OLD = {"a.onnx": b"old a", "b.onnx": b"old b", "below/c.onnx": b"old c"}
NEW = {"a.onnx": b"new a", "b.onnx": b"new b"}


def content(folder: Path) -> dict[str, bytes]:
    """Return what a reader finds of the set that the manifest lists."""
    lines = (folder / MANIFEST).read_text().splitlines()[1:] if folder.exists() else []
    names = [line.partition("  ")[2] for line in lines]
    return {name: read_member(folder / name, 99) for name in names if "/" not in name} | {
        name: (folder / name).read_bytes() for name in names if "/" in name
    }


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("there", ["nothing", "a set", "a set and other files"])
def test_readers_find_the_old_or_the_new_set_after_a_kill_at_any_step(tmp_path: Path, there: str) -> None:
    seen = set()
    for step in itertools.count():
        out = tmp_path / f"{step}" / "out"
        out.parent.mkdir()
        before = {} if there == "nothing" else OLD
        if there != "nothing":
            write_set(out, OLD)
        if there == "a set and other files":
            (out / "mine.onnx").write_bytes(b"mine")
        was_killed = killed_at(step, lambda out=out: write_set(out, NEW))  # type: ignore[misc]
        assert content(out) in (before, NEW)
        seen.add(len(content(out)))
        write_set(out, NEW)
        assert content(out) == NEW
        others = {"mine.onnx"} if there == "a set and other files" else set()
        assert files(out) - {"below/c.onnx"} == {*NEW, MANIFEST, *others}
        assert (out / "below/c.onnx").exists() is False or was_killed
        assert [entry.name for entry in out.parent.iterdir()] == ["out"]
        if not was_killed:
            break
    assert step >= 5
    assert len(seen) == 2


def test_only_listed_and_unchanged_files_are_replaced_or_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_set(out, OLD)
    assert write_set(out, NEW) == ["below/c.onnx"]
    assert (content(out), files(out)) == (NEW, {*NEW, MANIFEST})
    (out / "c.onnx").write_bytes(b"\x08\x0a\x12\x03frn")  # of frn, but not of this set
    write_set(out, OLD)
    assert (out / "c.onnx").exists()
    (out / "below" / "c.onnx").write_bytes(b"mine now")
    assert write_set(out, NEW) == []
    assert (out / "below" / "c.onnx").read_bytes() == b"mine now"
    (out / "a.onnx").write_bytes(b"mine now")
    with pytest.raises(FrnError, match=r"a\.onnx: already exists\. Give another name, or add --replace"):
        write_set(out, OLD)
    assert (out / "a.onnx").read_bytes() == b"mine now"
    write_set(out, OLD, replace=True)
    assert content(out) == OLD


def test_a_file_that_the_manifest_does_not_describe_is_not_read(tmp_path: Path) -> None:
    write_set(tmp_path, OLD)
    assert subprocess.run(["sha256sum", "--strict", "-c", MANIFEST], cwd=tmp_path, capture_output=True).returncode == 0
    (tmp_path / "a.onnx").write_bytes(b"other")
    with pytest.raises(FrnError, match=r"a\.onnx: is not the file that SHA256SUMS .* lists"):
        read_member(tmp_path / "a.onnx", 99)
    (tmp_path / "mine.onnx").write_bytes(b"mine")
    assert read_member(tmp_path / "mine.onnx", 99) == b"mine"
    (tmp_path / MANIFEST).write_text(f"{'0' * 64}  mine.onnx\n")  # another program's
    assert read_member(tmp_path / "a.onnx", 99) == b"other"


def test_failed_write_keeps_the_old_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path / "out", OLD)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FrnError, match=r"a\.onnx: cannot be written \(No space left on device\)"):
        write_set(tmp_path / "out", NEW)
    assert content(tmp_path / "out") == OLD
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(os.name == "nt", reason="a folder in use cannot be renamed there")
def test_the_current_folder_keeps_its_inode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path / "out", OLD)
    write_set(tmp_path / "out", OLD)
    monkeypatch.chdir(tmp_path / "out")
    before = (tmp_path / "out").stat().st_ino
    write_set(Path(), NEW)
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
    assert files(tmp_path / "new") == {"x"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["new"]


def test_a_damaged_manifest_is_replaced(tmp_path: Path) -> None:
    write_set(tmp_path, OLD)
    manifest = tmp_path / MANIFEST
    manifest.write_text(manifest.read_text().replace("b.onnx", "b\0.onnx"))
    write_set(tmp_path, NEW, replace=True)
    assert content(tmp_path) == NEW
