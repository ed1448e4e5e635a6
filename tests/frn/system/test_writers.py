"""Everything that writes files does so through one guard, which replaces nothing of the user's."""

import ast
import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from frn_tui.client.file_requests import WriteText
from frn_tui.engine.files.moves import MoveJournal
from frn_tui.engine.files.projects import write_text
from frn_tui.engine.worker_queues import Job
from PIL import Image

from frn.errors import FrnError
from frn.estimator.few_shot import FewShotClassifier
from frn.inference.results import ResultsFile
from frn.report.page import write_page
from frn.system.file_sets import write_set
from frn.system.files import require_writable, write_atomically
from frn.system.processes.locks import Lock
from frn.training.runs.run import RunFolder
from tests.drawings import MOTHS

ROOT = Path(__file__).parents[3]
GUARDS = {"frn/system/files.py", "frn/system/file_sets.py", "frn/system/processes/locks.py"}
ELSEWHERE = {
    "frn/cli/shell/console.py:plain_ending": "to the null device",
    "frn/cli/use/group.py:_copy": "in a new folder",
    "frn/data/prepare/__init__.py:prepare": "in a new folder",
    "frn/data/prepare/writer.py:write": "in a new folder",
    "frn/data/prepare/writer.py:write_items": "in a new folder",
    "frn/data/pixel_cache.py:_build": "in a new folder",
    "frn/data/pixel_cache.py:_open": "the stamp in a folder of the cache",
    "frn/models/zoo.py:remove_model": "the model's folder, renamed before it is removed",
    "frn/system/processes/sandbox.py:_hang_up": "to the null device",
    "frn/system/processes/sandbox.py:serve": "to the null device",
    "tui/frn_tui/engine/files/bundles.py:_copy": "in a new folder",
    "tui/frn_tui/engine/files/bundles.py:_extract": "in a new folder",
    "tui/frn_tui/engine/files/placing.py:copy_new": "under a new name",
    "tui/frn_tui/engine/files/placing.py:rename_new": "to a new name",
    "tui/frn_tui/engine/files/sorting.py:_restore_link": "to a new name",
    "tui/frn_tui/engine/files/sorting.py:_unpacked": "in a temporary folder",
    "tui/frn_tui/engine/worker_queues.py:redirect_stdout": "the log, removed instead of emptied",
}
"""Functions that open or rename files for writing without the guard, and where."""
WRITES = re.compile(
    r"""\.(write_bytes|write_text|touch|symlink_to|hardlink_to)\(|os\.(replace|rename|link|symlink|truncate)\("""
    r"""|(?<!session)\.rename\(|O_(WRONLY|RDWR|CREAT|TRUNC)|shutil\.(copy|move)\w*\("""
    r"""|\bopen\((.*, )?(mode=)?['"][rwxab]*[wxa+][rwxab+]*['"]"""
)


def writers() -> Iterator[str]:
    """Yield the functions that open or rename files for writing."""
    for folder in ("frn", "export/frn_export", "tui/frn_tui"):
        for path in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(path.read_text())
            for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
                calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
                if any(WRITES.search(ast.unparse(call)) for call in calls):
                    yield f"{path.relative_to(ROOT).as_posix()}:{function.name}"


def test_nothing_writes_around_the_guard() -> None:
    assert {name for name in writers() if name.partition(":")[0] not in GUARDS} == ELSEWHERE.keys()


NAMES = {
    **{"save_project": "x.frn.json", "a project": "x.frn.json", "ResultsFile": "x.jsonl"},
    **dict.fromkeys(("RunFolder", "metrics of a run"), "metrics.jsonl"),
}
"""Names that the doors accept."""

DOORS: dict[str, Callable[[Path], object]] = {
    "write_atomically": lambda path: write_atomically(path, "Written by frn"),
    "write_page": lambda path: write_page(path, iter(["Written by frn"])),
    "write_set": lambda path: write_set(path.parent, {path.name: b"new"}),
    "write_text of the app": lambda path: write_text(WriteText(str(path), "new"), Job.__new__(Job)),
    "ResultsFile": lambda path: ResultsFile(path, "run").__exit__(None, None, None),
    "save_project": lambda path: fitted().save(path),
    "export_onnx": lambda path: fitted().export_onnx(path),
    "RunFolder": lambda path: RunFolder(path.parent).require_free(),
}
"""Public doors that write a file of this path."""


def fitted() -> FewShotClassifier:
    samples = MOTHS
    return FewShotClassifier("conv4").fit({folder.name: [next(folder.iterdir())] for folder in samples.iterdir()})


@pytest.mark.parametrize("kind", ["text", "photo", "link", "hard link"])
@pytest.mark.parametrize("door", DOORS)
def test_no_door_replaces_a_file_of_others(tmp_path: Path, door: str, kind: str) -> None:
    mine, path = tmp_path / "mine", tmp_path / "out" / NAMES.get(door, "notes.txt")
    path.parent.mkdir()
    Image.new("RGB", (4, 4)).save(mine, "PNG") if kind == "photo" else mine.write_text("dear diary")
    before = mine.read_bytes()
    path.symlink_to(mine) if kind == "link" else path.hardlink_to(mine)
    with pytest.raises(FrnError, match=r"already exists|is a photo|in the way"):
        DOORS[door](path)
    assert mine.read_bytes() == before == path.read_bytes()
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


REPLACERS: dict[str, Callable[[Path], object]] = {
    "write_atomically": lambda path: write_atomically(path, "new", replace=True),
    "write_set": lambda path: write_set(path.parent, {path.name: b"new"}, replace=True),
    "ResultsFile": lambda path: ResultsFile(path, "run", replace=True).__exit__(None, None, None),
    "metrics of a run": lambda path: RunFolder(path.parent).append_metrics(loss=1),
    "a journal of moves": lambda path: MoveJournal(str(path)).write({"moved": "x"}),
    "a project": lambda path: fitted().save(path, replace=True),
}


@pytest.mark.parametrize("door", REPLACERS)
def test_other_names_of_a_replaced_file_keep_their_content(tmp_path: Path, door: str) -> None:
    mine, path = tmp_path / "mine", tmp_path / "out" / NAMES.get(door, "x")
    path.parent.mkdir()
    mine.write_text("{}")
    path.hardlink_to(mine)
    REPLACERS[door](path)
    assert mine.read_text() == "{}"
    assert mine.stat().st_nlink == 1


def test_a_file_of_frn_is_replaced_only_by_one_of_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_atomically(path, "<!-- Written by frn -->")
    with pytest.raises(FrnError, match="x: already exists and is a file of another kind"):
        write_atomically(path, b"\x08\x0a\x12\x03frn")
    write_atomically(path, "<!-- Written by frn --> again")
    assert path.read_text() == "<!-- Written by frn --> again"


@pytest.mark.skipif(os.name == "nt", reason="no modes there")
def test_the_backup_of_a_project_has_the_mode_of_the_project_and_replaces_no_other_file(tmp_path: Path) -> None:
    path, backup = tmp_path / "x.frn.json", tmp_path / "x.frn.json.bak"
    fitted().save(path)
    path.chmod(0o600)
    for before in (b"{}", b"{ }"):
        path.write_bytes(before)
        fitted().save(path, replace=True)
        assert (backup.read_bytes(), backup.stat().st_mode & 0o777) == (before, 0o600)
    backup.write_text("my notes")
    path.write_bytes(b"{}")
    with pytest.raises(FrnError, match="bak: already exists"):
        fitted().save(path, replace=True)
    assert backup.read_text() == "my notes"


def test_a_lock_empties_no_file_of_others(tmp_path: Path) -> None:
    diary, path = tmp_path / "diary.txt", tmp_path / "x"
    theirs = path.with_name(".x.frn-lock")
    for make in (theirs.hardlink_to, theirs.symlink_to, lambda _: theirs.write_text("mine")):
        diary.write_text("process 1 of my diary")
        make(diary)
        for write in (require_writable, lambda path: write_atomically(path, "new")):  # the first is before the work
            with pytest.raises(FrnError, match=r"x: cannot be written \(.*\.x\.frn-lock is not a lock of frn"):
                write(path)
        assert diary.read_text() == "process 1 of my diary"
        assert path.with_name(".x.frn-lock").read_text() in ("process 1 of my diary", "mine")
        path.with_name(".x.frn-lock").unlink()


def test_a_full_disk_leaves_no_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    held = Lock(tmp_path / "lock")
    assert held.acquire()
    held.release()
    assert not list(tmp_path.iterdir())
