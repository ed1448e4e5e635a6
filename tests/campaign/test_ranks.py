"""Training on two ranks continues after one or all of them are killed at random moments.

`FRN_RANK_KILLS=30 pytest -m campaign tests/campaign/test_ranks.py` takes half an hour or more.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

KILLS = int(os.environ.get("FRN_RANK_KILLS", "30"))
EPOCHS = 3000


@contextlib.contextmanager
def training(out: Path, restarts: int = 0) -> Iterator["subprocess.Popen[bytes]"]:
    """Start or resume a run on two ranks, and kill all of its processes at the end."""
    words = ["frn", "train", "demo", "--epochs", f"{EPOCHS}", "--out", str(out), "--device", "cpu", "--threads", "1"]
    resume = ["--resume"] if (out / "last.safetensors").exists() else []
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", f"--max-restarts={restarts}"]
    command = [sys.executable, "-m", *launcher, "-m", *words, *resume]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        kill(process.pid, *ranks_of(process.pid))
        process.wait(120)


def kill(*processes: int) -> None:
    for process in processes:  # torchrun starts each rank in a separate session
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def ranks_of(process: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def wait_for_steps(out: Path, process: "subprocess.Popen[bytes]", more_than: int) -> None:
    deadline = time.monotonic() + 300
    while len(steps(out)) <= more_than:
        assert process.poll() is None, "it did not go on"
        assert time.monotonic() < deadline
        time.sleep(0.2)


def steps(out: Path) -> list[int]:
    path = out / "metrics.jsonl"
    text = path.read_text().splitlines() if path.exists() else []
    found = []
    for line in text:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # this line is incomplete because of a kill; the next resume removes it
        if "loss" in entry:
            found.append(entry["total_steps"])
    return found


def end_well(out: Path, process: "subprocess.Popen[bytes]") -> None:
    """Train, save and stop; check that no step was taken twice or skipped."""
    wait_for_steps(out, process, len(steps(out)))
    process.send_signal(signal.SIGTERM)
    process.wait(120)
    found = steps(out)
    assert found == list(range(1, len(found) + 1))


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
def test_run_resumes_after_each_kill(tmp_path: Path) -> None:
    random.seed(int(os.environ.get("FRN_SEED", "0")))
    out = tmp_path / "run"
    for number in range(KILLS):
        with training(out) as process:
            if number % 3:  # every third kill happens during startup
                wait_for_steps(out, process, len(steps(out)))
            time.sleep(random.uniform(0, 5))
            while not (children := ranks_of(process.pid)):
                assert process.poll() is None
                time.sleep(0.1)
            kill(*([process.pid, *children] if number % 2 else random.sample(children, 1)))
            process.wait(120)
    with training(out) as process:
        end_well(out, process)


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
def test_torchrun_recovers_each_time_a_rank_is_killed(tmp_path: Path) -> None:
    random.seed(int(os.environ.get("FRN_SEED", "0")))
    out = tmp_path / "run"
    with training(out, restarts=KILLS) as process:
        for _ in range(KILLS):
            wait_for_steps(out, process, len(steps(out)))
            time.sleep(random.uniform(0, 2))
            before = ranks_of(process.pid)
            kill(random.choice(before))
            deadline = time.monotonic() + 120
            while not (new := ranks_of(process.pid)) or set(new) & set(before):
                assert process.poll() is None, "torchrun gave up"
                assert time.monotonic() < deadline
                time.sleep(0.1)
        end_well(out, process)
