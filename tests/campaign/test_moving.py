"""Moving photos in the campaign: kills at every system call, concurrent programs, two file systems. `FRN_MOVES=6000`

sets the number of photos that two programs sort concurrently.
"""

import collections
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock  # noqa: F401  # here, so that no fork imports it
import pytest
from frn_tui.engine.files import placing, sorting
from frn_tui.engine.files.moves import MoveJournal, settle_all

from tests.forks import ended, fork

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
PHOTOS = int(os.environ.get("FRN_MOVES", "6000"))


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FRN_STATE", str(tmp_path / "state"))


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a second file system; needs administrator rights."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace: apt install strace")
@pytest.mark.parametrize("disks", [1, 2])
@pytest.mark.parametrize("back", [False, True])
def test_a_kill_at_any_system_call_loses_no_photo(
    tmp_path: Path, request: pytest.FixtureRequest, disks: int, back: bool
) -> None:
    root = request.getfixturevalue("other_disk") if disks == 2 else tmp_path
    log, card = tmp_path / "log", tmp_path / "card"
    card.mkdir()

    def once(*inject: str) -> int:
        """Move a photo under strace, which kills the process at the given system call; return the exit status."""
        shutil.rmtree(tmp_path / "state", ignore_errors=True)
        for folder in (card, root / "out"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        photo, other = card / "x.jpg", root / "out" / "x.jpg"
        photo.write_bytes(b"photo" * 50_000)
        other.write_bytes(b"other" * 50_000)  # a photo with the same name and size
        journal = MoveJournal()
        place = sorting.put(photo, root / "out", journal)[0] if back else None

        def work() -> None:
            if place is None:
                sorting.put(photo, root / "out", MoveJournal())
            else:
                sorting.step_over(place, photo, MoveJournal(), back=True, is_twin=False)

        status = _traced(work, log, *inject)
        _check(card, root / "out", finished=False)
        settle_all()
        _check(card, root / "out", finished=True)
        assert status or photo.exists() == back
        return status

    assert once() == 0
    calls = [found[1] for line in log.read_text().splitlines() if (found := re.match(r"\d+ +(\w+)\(", line))]
    seen: collections.Counter[str] = collections.Counter()
    killed = 0
    for name in calls:
        seen[name] += 1
        killed += once("-e", f"inject={name}:signal=KILL:when={seen[name]}") == -signal.SIGKILL
    print(f"{len(calls)} system calls, killed at {killed}")
    assert killed > 0.9 * len(calls) > 30


def _check(card: Path, out: Path, *, finished: bool) -> None:
    """Check that both photos are complete, and that after recovery each exists exactly once."""
    found = [path.read_bytes() for path in (*card.iterdir(), *out.iterdir())]
    assert {b"photo" * 50_000, b"other" * 50_000} <= set(found)
    if finished:
        assert len(found) == 2, [*card.iterdir(), *out.iterdir()]


def _traced(work: Callable[[], object], log: Path, *inject: str) -> int:
    """Do the given work in a fork under strace, and return the exit status."""

    def stopped() -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        work()

    process = fork(stopped)
    os.waitpid(process, os.WUNTRACED)
    with subprocess.Popen(["strace", "-f", "-qq", "-o", log, *inject, "-p", str(process)]) as strace:
        while f"TracerPid:\t{strace.pid}" not in Path(f"/proc/{process}/status").read_text():
            assert strace.poll() is None, "strace cannot attach here"
            time.sleep(0.001)
        os.kill(process, signal.SIGCONT)
        return ended(process)


@pytest.mark.parametrize("disks", [1, 2])
@pytest.mark.parametrize("has_system_call", [True, False])
def test_two_programs_that_sort_photos_with_the_same_name_lose_none(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, disks: int, has_system_call: bool
) -> None:
    root, count = request.getfixturevalue("other_disk") if disks == 2 else tmp_path, PHOTOS // 8
    if not has_system_call:
        monkeypatch.setattr(placing, "rename_no_replace", _unsupported)
    rename = placing.rename_new

    def late(source: Path, target: Path) -> None:
        time.sleep(random.choice([0, 0, 0.0005, 0.002]))  # wait between checking a name and using it
        rename(source, target)

    monkeypatch.setattr(placing, "rename_new", late)
    for card in "ab":
        for number in range(count):
            photo = tmp_path / card / f"IMG_{number}.jpg"
            photo.parent.mkdir(exist_ok=True)
            photo.write_text(f"{card} {number}")

    def program(card: str) -> None:
        signal.alarm(600)
        journal = MoveJournal()
        for number in range(count):
            sorting.put(tmp_path / card / f"IMG_{number}.jpg", root / "jay", journal)

    doomed, other = fork(lambda: program("a")), fork(lambda: program("b"))
    time.sleep(random.uniform(0.05, 0.3))
    os.kill(doomed, signal.SIGKILL)  # then start over
    assert ended(doomed) == -signal.SIGKILL
    settle_all()
    left = [path.name for path in (tmp_path / "a").iterdir()]
    journal = MoveJournal()
    for name in left:
        sorting.put(tmp_path / "a" / name, root / "jay", journal)
    assert ended(other) == 0
    found = [path.read_text() for path in (root / "jay").iterdir()]
    assert sorted(found) == sorted(f"{card} {number}" for card in "ab" for number in range(count))
    assert not [*(tmp_path / "a").iterdir(), *(tmp_path / "b").iterdir()]


def _unsupported(source: Path, target: Path) -> None:
    raise OSError(38, "Function not implemented")
