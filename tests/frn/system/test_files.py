"""Files and sets of files are written completely or not at all, and never over those of others."""

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from frn.errors import FrnError
from frn.estimator.loading import load_classifier
from frn.features.extractor import Extractor
from frn.images.opening import open_image
from frn.models.header import read_header
from frn.models.model import load_model, read_weights
from frn.projects.project import load_project
from frn.system.file_sets import MANIFEST, new_folder, read_member, write_set
from frn.system.files import (
    discard_output,
    read_json,
    read_regular,
    remove_unfinished,
    replacing,
    require_regular,
    write_atomically,
)
from frn.training.runs.run import RunFolder, TrainState
from tests.killing import killed_at
from tests.system_calls import record


@pytest.mark.skipif(os.name == "nt", reason="no umask there")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_gets_the_permissions_of_the_umask_which_never_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int, mode: int
) -> None:
    """The umask applies to the whole process: a different thread would create world-writable files."""
    before = os.umask(umask)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", lambda mask: pytest.fail("the umask was changed"))
            write_atomically(tmp_path / "new" / "x.json", "{}")
    finally:
        os.umask(before)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["x.json"]
    assert (tmp_path / "new" / "x.json").stat().st_mode & 0o777 == mode


def test_failed_write_keeps_the_old_file_and_no_leftovers(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(FrnError, match="cannot be written"):
        write_atomically(tmp_path / "x", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


READERS: dict[str, Callable[[Path], object]] = {
    "x.png": open_image,
    "x.json": read_json,
    "x.frn.json": load_project,
    "y.frn.json": load_classifier,
    "x.onnx": Extractor.open,
    "x.safetensors": read_header,
    "y.safetensors": read_weights,
    "x.pth": read_weights,
    "z.safetensors": load_model,
    "metrics.jsonl": lambda path: RunFolder(path.parent).rewind_metrics(TrainState()),
}


LIMITS = {".png": "256", ".json": "64", ".frn.json": "256", ".onnx": "1.02e+03", ".jsonl": "1.02e+03"}
LIMITS |= {".pth": "8.19e+03", ".safetensors": "1.64e+04"}
"""Size limits in MiB, by suffix."""


@pytest.fixture
def patience() -> Iterator[None]:
    """Fail instead of waiting forever on a pipe."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("waited"))
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(os.name == "nt", reason="pipes and devices are of POSIX")
@pytest.mark.parametrize("kind", ["pipe", "device", "10 TiB of nothing", "folder"])
@pytest.mark.parametrize("name", READERS)
def test_endless_files_are_refused(tmp_path: Path, name: str, kind: str, patience: None) -> None:
    path = tmp_path / name
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case _:
            with path.open("wb") as file:
                file.truncate(10 << 40)
    with pytest.raises(FrnError, match=r"is not a regular file|the limit is|has this name|cannot be read") as caught:
        READERS[name](path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    if kind == "10 TiB of nothing":
        assert str(caught.value).endswith(f"the limit is {LIMITS[''.join(path.suffixes)]} MiB")


def test_a_file_is_read_up_to_the_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    large = os.urandom((2 << 20) + 1)
    (tmp_path / "large").write_bytes(large)
    for limit in (len(large), len(large) + 1, 8 << 20):
        assert read_regular(tmp_path / "large", limit) == large
    assert require_regular(path, 5) == path
    for read in (read_regular, require_regular):
        with pytest.raises(FrnError, match=r"x: is 4\.77e-06 MiB; the limit is 3\.81e-06 MiB"):
            read(path, 4)
        for absent in (tmp_path / "none", tmp_path / "a\0b"):
            with pytest.raises(FrnError, match="cannot be read"):
                read(absent, 4)
    path.write_bytes(b"[" * 100_000)
    with pytest.raises(FrnError, match="x: it is not JSON"):
        read_json(path)


def test_a_name_that_is_not_utf_8_is_written_as_its_escape(tmp_path: Path) -> None:
    name = "\udcff"
    write_atomically(tmp_path / "x.json", f'["{name}"]')
    assert (tmp_path / "x.json").read_text() == r'["\udcff"]'
    assert read_json(tmp_path / "x.json") == [name]


@pytest.mark.skipif(os.name == "nt", reason="links need rights there, and pipes have no names")
def test_link_is_kept_and_pipe_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "far" / "file")
    for text in ("new", "old"):
        write_atomically(tmp_path / "link", text, replace=True)
        assert (tmp_path / "far" / "file").read_text() == text
    assert (tmp_path / "link").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FrnError, match="pipe: is a device or pipe"):
        write_atomically(tmp_path / "pipe", "text")
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["far", "link", "pipe"]


def test_longest_file_name_fits_its_temporary_name(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 250 + ".json")
    write_atomically(path, "{}")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's names of descriptors")
def test_content_is_synced_before_the_rename_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = record(monkeypatch)
    write_atomically(tmp_path / "x", "text")
    assert calls == [("sync", ".x.frn-part"), ("rename", "x"), ("sync", tmp_path.name)]


def test_two_writers_of_a_file_take_turns(tmp_path: Path) -> None:
    contents = [bytes([number]) * 100_000 for number in range(8)]

    def write(content: bytes) -> None:
        with replacing(tmp_path / "x", replace=True) as file:
            for start in range(0, len(content), 20_000):
                file.write(content[start : start + 20_000])
                file.flush()
                time.sleep(0.001)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, contents))
    assert (tmp_path / "x").read_bytes() in contents
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_leftovers_of_a_killed_writer_are_removed_and_files_in_use_are_not(tmp_path: Path) -> None:
    part = tmp_path / ".x.frn-part"
    part.write_bytes(b"half")
    remove_unfinished(tmp_path / "x")
    assert not part.exists()
    with replacing(tmp_path / "x") as file:
        file.write(b"whole")
        remove_unfinished(tmp_path / "x")
        assert part.exists()
    part.write_bytes(b"half")
    write_atomically(tmp_path / "x", "again", replace=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


@pytest.mark.skipif(os.name == "nt", reason="no modes there")
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o400])
def test_a_replaced_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    path.chmod(mode)
    write_atomically(path, "new", replace=True)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", mode)


def test_failed_check_leaves_the_file_and_its_folder_unchanged(tmp_path: Path) -> None:
    def check() -> None:
        raise FrnError("not this one")

    (tmp_path / "x").write_text("before")
    with pytest.raises(FrnError, match="not this one"):
        write_atomically(tmp_path / "x", "after", check=check)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "before")]


@pytest.mark.skipif(os.name == "nt", reason="no modes there")
def test_nobody_else_can_open_the_new_content_of_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part file is private from its creation, not only once it has its mode."""
    path, modes, chmod = tmp_path / "x", [], os.chmod
    path.touch()

    def watched(part: Path, mode: int) -> None:
        modes.append(part.stat().st_mode & 0o777)
        chmod(part, mode)

    monkeypatch.setattr(os, "chmod", watched)
    write_atomically(path, "text")
    assert modes == [0o600]


def test_discarded_output_does_not_reach_its_pipe() -> None:
    reader, writer = os.pipe()
    discard_output(writer)
    os.write(writer, b"lost")
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b""


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
