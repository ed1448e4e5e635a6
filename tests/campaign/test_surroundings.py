"""Kills at every file operation, a full disk, and a clock that is set back."""

import itertools
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.projects.project import ModelReference, Project, load_project, save_project
from frn.projects.session import ClassEntry, State
from frn.system.file_sets import write_set
from tests.killing import killed_at

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

REFERENCE = ModelReference("conv4", "0" * 64, EvaluationTransform(size=32))


def project(name: str) -> Project:
    return Project(REFERENCE, State((ClassEntry(1, name, ()),), None, 2))


def test_save_killed_at_any_step_leaves_a_project_and_the_next_save_cleans_up(tmp_path: Path) -> None:
    for step in itertools.count():
        home = tmp_path / f"{step}"
        path = home / "x.frn.json"
        save_project(path, project("old"))
        was_killed = killed_at(step, lambda path=path: save_project(path, project("new"), replace=True))  # type: ignore[misc]
        assert load_project(path).state.classes[0].name in ("old", "new")
        save_project(path, project("newer"), replace=True)
        assert {entry.name for entry in home.iterdir()} <= {"x.frn.json", "x.frn.json.bak"}
        if not was_killed:
            break
    assert step >= 4


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of one MiB; needs administrator rights."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("kind", ["project", "set"])
def test_full_disk_gives_a_one_line_error_and_keeps_old_files(small_disk: Path, kind: str) -> None:
    path, out = small_disk / "x.frn.json", small_disk / "out"
    save_project(path, project("old"))
    write_set(out, {"a": b"old", "b": b"old"})
    (small_disk / "filler").write_bytes(bytes(900 << 10))
    write: Callable[[], object] = lambda: save_project(path, project("n" * (200 << 10)), replace=True)  # noqa: E731
    if kind == "set":
        write = lambda: write_set(out, {"a": bytes(9000), "b": bytes(300 << 10)})  # noqa: E731
    with pytest.raises(FrnError, match="No space left on device") as caught:
        write()
    assert len(str(caught.value).splitlines()) == 1
    assert load_project(path).state.classes[0].name == "old"
    assert {entry.read_bytes() for entry in out.iterdir()} == {b"old"}
    assert not [entry for entry in small_disk.rglob(".*") if entry.name != ".x.frn.json"]


def test_leftovers_are_removed_after_the_clock_is_set_back(tmp_path: Path) -> None:
    stale = tmp_path / ".x.frn.json.0123abcd"
    stale.touch()
    os.utime(stale, (time.time() + 9e6,) * 2)
    save_project(tmp_path / "x.frn.json", project("old"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.frn.json"]
