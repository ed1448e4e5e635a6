"""Training in two ranks, killed at random moments, one of them or all; each time it goes on.

`FRN_RANK_KILLS=30 pytest -m campaign tests/campaign/test_ranks.py` takes half an hour.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLS = int(os.environ.get("FRN_RANK_KILLS", "30"))
EPOCHS = 3000


def start(out: Path, epochs: int) -> "subprocess.Popen[bytes]":
    words = ["frn", "train", "demo", "--epochs", str(epochs), "--out", str(out), "--device", "cpu", "--threads", "1"]
    resume = ["--resume"] if (out / "last.safetensors").exists() else []
    port = f"--master-port={random.randrange(20_000, 60_000)}"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", port, "-m", *words, *resume]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def ranks_of(process: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def steps(out: Path) -> list[int]:
    path = out / "metrics.jsonl"
    text = path.read_text().splitlines() if path.exists() else []
    found = []
    for line in text:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the half line of a kill; it goes with the next resume
        if "loss" in entry:
            found.append(entry["total_steps"])
    return found


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
def test_each_kill_is_resumed(tmp_path: Path) -> None:
    random.seed(int(os.environ.get("FRN_SEED", "0")))
    out = tmp_path / "run"
    for kill in range(KILLS):
        before = steps(out)
        process, deadline = start(out, EPOCHS), time.monotonic() + 300
        while kill % 3 and steps(out) == before:  # every third one while it starts
            assert process.poll() is None, f"kill {kill}: it did not go on"
            assert time.monotonic() < deadline
            time.sleep(0.2)
        time.sleep(random.uniform(0, 5))
        while not (children := ranks_of(process.pid)):
            assert process.poll() is None
            time.sleep(0.1)
        victims = [process.pid, *children] if kill % 2 else random.sample(children, 1)
        for victim in victims:  # torchrun gives its ranks sessions of their own
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        process.wait(120)
    reached = len(steps(out))
    process, deadline = start(out, EPOCHS), time.monotonic() + 300
    while len(steps(out)) <= reached:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)  # saves and stops
    process.wait(120)
    found = steps(out)
    assert found == list(range(1, len(found) + 1)), "no step twice, none missing"
