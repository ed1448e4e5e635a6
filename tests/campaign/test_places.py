"""Limited environments in the campaign: `frn classify` with missing, full or locked folders, and concurrent programs.

The command either succeeds or gives a one-line error, and existing files stay unchanged.
"""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from frn_tui.engine.files import placing, sorting
from frn_tui.engine.files.moves import MoveJournal, settle_all
from PIL import Image

from frn.data.folders import scan
from frn.data.pixel_cache import load_images
from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model
from frn.projects.project import ModelReference, Project, load_project, save_project
from frn.projects.session import ClassEntry, State
from frn.system.caches import cache_folder
from frn.system.file_sets import write_set
from frn.training.runs.run import RunFolder, TrainState
from tests.drawings import MOTHS, PHOTO
from tests.forks import ended, fork
from tests.killing import killed_at

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
ROOT = Path(__file__).parents[2]
CLASSIFY = ["classify", str(MOTHS), str(PHOTO), "--model", "conv4"]


def frn(*words: str, limit: str = "", **environment: str | None) -> subprocess.CompletedProcess[str]:
    """Run the program from a shell that has set a limit; None unsets a variable."""
    sought = os.pathsep.join(str(ROOT / part) for part in (".", "export", "tui"))
    variables = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": sought, **environment}
    known = {name: value for name, value in {**os.environ, **variables}.items() if value is not None}
    command = ["sh", "-c", f'{limit or ":"} && exec "$@"', "sh", sys.executable, "-m", "frn", *words]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", env=known, timeout=100)


def answers(ended: subprocess.CompletedProcess[str]) -> bool:
    """Return whether the command succeeded; if not, check that each reason is one line."""
    if ended.returncode == 0:
        assert ended.stdout.strip()
        assert not ended.stderr
        return True
    assert ended.returncode == 1, ended
    # If numpy itself runs out of memory, its library prints its own message and ends the program.
    reasons = ended.stderr.splitlines()
    assert reasons, ended
    assert all(line.startswith(("error: ", "OpenBLAS error: ")) for line in reasons), ended
    assert len(reasons) <= 2
    return False


def limited(limits: list[str], tmp_path: Path) -> list[bool]:
    """Run without a cache under each limit; the first must succeed, and all answers must be equal."""
    ended = [frn(*CLASSIFY, limit=limit, FRN_CACHE=str(tmp_path / limit)) for limit in limits]
    answered = [answers(each) for each in ended]
    assert {each.stdout for each, well in zip(ended, answered, strict=True) if well} == {ended[0].stdout}
    return answered


def test_classification_works_with_few_file_handles(tmp_path: Path) -> None:
    assert limited([f"ulimit -n {number}" for number in (32, 10, 8, 7, 6, 5)], tmp_path)[:3] == [True] * 3


def test_classification_works_with_little_address_space(tmp_path: Path) -> None:
    limits = [f"ulimit -v {mebi << 10}" for mebi in (2000, 800, 400, 260, 230, 200)]
    assert limited(limits, tmp_path)[:3] == [True] * 3


def test_large_image_with_too_little_memory_is_reported(tmp_path: Path) -> None:
    Image.new("RGB", (9000, 9000)).save(tmp_path / "large.png")
    words = ["classify", str(MOTHS), str(tmp_path / "large.png"), "--model", "conv4"]
    ended = frn(*words, limit=f"ulimit -v {500 << 10}")
    assert not answers(ended)
    assert "large.png: there is not enough memory to decode it" in ended.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {"HOME": None, "FRN_CACHE": None},
        {"HOME": "/nonexistent/home", "FRN_CACHE": None, "XDG_CONFIG_HOME": None},
        {"HOME": "/dev/null", "FRN_CACHE": None},
        {"FRN_CACHE": "/dev/null/cache"},
        {"FRN_CACHE": "/proc/cache"},
        {"FRN_MODELS": "/dev/null/models"},
        {"TMPDIR": "/nonexistent"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "xx_YY.nothing", "TERM": "nothing", "COLUMNS": "-1"},
    ],
)
def test_classification_works_without_home_cache_or_locale(environment: dict[str, Any]) -> None:
    assert answers(frn(*CLASSIFY, **environment))


def test_classification_works_for_names_that_the_locale_cannot_encode(tmp_path: Path) -> None:
    for name, photo in zip(("Ärger", "雀", "a\udcffb"), sorted(PHOTO.parent.iterdir()), strict=False):
        home = tmp_path / "classes" / name
        home.mkdir(parents=True)
        (home / "ö.jpg").write_bytes(photo.read_bytes())
    words = ["classify", str(tmp_path / "classes"), str(tmp_path / "classes" / "雀" / "ö.jpg"), "--model", "conv4"]
    assert answers(frn(*words, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"))


def test_read_only_disk_can_be_read_and_failed_writes_are_reported(other_disk: Path) -> None:
    path = other_disk / "x.frn.json"
    save_project(path, project("old"))
    subprocess.run(["mount", "-o", "remount,ro", other_disk], check=True)
    assert answers(frn(*CLASSIFY, FRN_CACHE=str(other_disk), HOME=str(other_disk)))
    assert not answers(frn("enroll", str(MOTHS), "--out", str(path), "--replace", "--model", "conv4"))
    assert not answers(frn("explain", *CLASSIFY[1:], "--out", str(other_disk / "why.png")))
    assert load_project(path).state.classes[0].name == "old"
    assert [entry.name for entry in other_disk.iterdir()] == ["x.frn.json"]


def at_once(*works: Callable[[], object]) -> None:
    """Run all functions at the same time in separate processes; none may raise."""
    processes = [fork(work) for work in works]
    assert [ended(process) for process in processes] == [0] * len(works)


def test_two_programs_save_one_project_and_a_third_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "x.frn.json"
    save_project(path, project("old"))

    def save(name: str) -> None:
        for _ in range(200):
            save_project(path, project(name), replace=True)

    def read() -> None:
        for _ in range(400):
            assert load_project(path).state.classes[0].name in ("old", "one", "two")

    at_once(lambda: save("one"), lambda: save("two"), read)
    assert {entry.name for entry in tmp_path.iterdir()} <= {"x.frn.json", "x.frn.json.bak"}


TRANSFORM = EvaluationTransform(size=16, resize=16)
MOVED = int(os.environ.get("FRN_MOVES", "6000"))  # number of photos that two programs sort concurrently


def test_two_programs_build_the_same_pixel_cache(moths: Path, tmp_path: Path) -> None:
    folders = scan(moths / "val")
    for _ in range(5):
        at_once(*[lambda: load_images(folders, TRANSFORM)] * 3)
    assert load_images(folders, TRANSFORM).images().shape == (60, 16, 16, 3)
    assert not list(cache_folder().rglob(".*"))


def test_pixel_cache_killed_at_any_step_is_built_again(
    moths: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders, step, was_killed = scan(moths / "val"), 0, True
    while was_killed:
        monkeypatch.setenv("FRN_CACHE", str(tmp_path / f"{step}"))
        was_killed = killed_at(step, lambda: load_images(folders, TRANSFORM))
        assert load_images(folders, TRANSFORM).images().shape == (60, 16, 16, 3)
        # A lock that no process holds is removed by the next build.
        assert not [left for left in cache_folder().rglob(".*") if left.suffix not in (".frn-lock", ".building")]
        step += 1
    assert step >= 4


def test_run_killed_at_any_step_of_a_save_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(ModelConfig(backbone="conv4", method="frn", transform=EvaluationTransform(size=32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step, was_killed = 0, True
    while was_killed:
        run = RunFolder(tmp_path / f"{step}")
        _save(run, model, optimizer, 1)
        was_killed = killed_at(step, lambda run=run: _save(run, model, optimizer, 2))  # type: ignore[misc]
        run.sweep()
        position = run.load_last(model, torch.nn.Identity(), optimizer, {})
        weight = next(model.parameters())
        assert position.total_steps == weight.flatten()[0].item()
        assert position.total_steps == 2 or was_killed
        run.rewind_metrics(position)
        assert {entry.name for entry in run.path.iterdir()} == {"config.toml", "last.safetensors", "metrics.jsonl"}
        assert len(run.metrics.read_text().splitlines()) <= position.total_steps
        step += 1
    assert step >= 4


def _save(run: RunFolder, model: Model, optimizer: torch.optim.Optimizer, steps: int) -> None:
    with torch.no_grad():
        next(model.parameters()).fill_(steps)
    run.write_config(["frn train x"], {"seed": steps})
    run.append_metrics(total_steps=steps)
    run.save_last(model, torch.nn.Identity(), optimizer, TrainState(total_steps=steps), {})


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


@pytest.mark.parametrize("kind", ["project", "set"])
def test_full_disk_gives_a_one_line_error_and_keeps_old_files(other_disk: Path, kind: str) -> None:
    path, out = other_disk / "x.frn.json", other_disk / "out"
    save_project(path, project("old"))
    write_set(out, {"a": b"old", "b": b"old"})
    before = {entry: entry.read_bytes() for entry in out.iterdir()}
    (other_disk / "filler").write_bytes(bytes(900 << 10))
    write: Callable[[], object] = lambda: save_project(path, project("n" * (200 << 10)), replace=True)  # noqa: E731
    if kind == "set":
        write = lambda: write_set(out, {"a": bytes(9000), "b": bytes(300 << 10)})  # noqa: E731
    with pytest.raises(FrnError, match="No space left on device") as caught:
        write()
    assert len(str(caught.value).splitlines()) == 1
    assert load_project(path).state.classes[0].name == "old"
    assert {entry: entry.read_bytes() for entry in out.iterdir()} == before
    assert not [entry for entry in other_disk.rglob(".*") if entry.name != ".x.frn.json"]


@pytest.fixture
def larger_disk(tmp_path: Path, other_disk: Path) -> Path:
    """A second file system of 64 MiB."""
    subprocess.run(["mount", "-o", "remount,size=64m", other_disk], check=True)
    return other_disk


@pytest.mark.parametrize("disks", [1, 2])
@pytest.mark.parametrize("has_system_call", [True, False])
def test_two_programs_that_sort_photos_with_the_same_name_lose_none(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, disks: int, has_system_call: bool
) -> None:
    root, count = request.getfixturevalue("larger_disk") if disks == 2 else tmp_path, MOVED // 8
    monkeypatch.setenv("FRN_STATE", str(tmp_path / "state"))
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
