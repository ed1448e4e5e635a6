"""Run parts of the campaign in supervised worker processes, and count accepted files, refusals and failures.

A part generates case number `i` from (seed, i) alone and passes its bytes to one of the program's readers. A file that
fails is kept under a name that says what happened.
"""

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
SECONDS = 10.0  # processor time in seconds after which a case counts as hung
STARTING = 60.0  # processor time in seconds allowed for a worker's imports and its intact files
WAITING = 12  # wall-clock limit as a multiple of the processor time, to allow for a busy machine
MEMORY = 2 << 30  # limit on the memory of a worker and its children, in bytes
REPORT = Path(os.environ.get("FRN_CAMPAIGN_REPORT", ROOT / "campaign.jsonl"))


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of file and the function that reads it."""

    count: int  # number of cases in a full campaign
    make: Callable[[np.random.Generator], bytes]
    door: Callable[[bytes, Path], object]
    """Reads the bytes, given an empty folder; an FrnError is a refusal, any other exception a crash."""
    refuses: bool = True  # whether some cases must be refused; damaged caches and settings are ignored instead


@dataclass(slots=True)
class Outcome:
    """Number of cases by outcome."""

    part: str
    seed: int
    tried: int = 0
    answered: int = 0
    refused: int = 0
    crashed: int = 0
    hung: int = 0
    peak: int = 0  # peak memory of the worker and its children, in bytes
    slowest: float = 0.0
    seconds: float = 0.0
    kinds: dict[str, int] = field(default_factory=dict)  # number of crashes by exception

    @property
    def is_clean(self) -> bool:
        return not (self.crashed or self.hung) and self.peak <= MEMORY and self.tried == self.answered + self.refused


def run(part: str, count: int, seed: int, keep: Path) -> Outcome:
    """Run cases 0 to `count` of a part, keep crashing and hanging files in `keep`, and add one line to the report."""
    outcome, began = Outcome(part, seed), time.monotonic()
    keep.mkdir(parents=True, exist_ok=True)
    while outcome.tried < count:
        _work(outcome, count, keep)
    outcome.seconds = round(time.monotonic() - began, 1)
    with REPORT.open("a") as file:
        file.write(json.dumps(asdict(outcome)) + "\n")
    return outcome


def _work(outcome: Outcome, count: int, keep: Path) -> None:
    """Run one worker until it finishes, dies or has to be killed."""
    first = outcome.tried
    command = [sys.executable, "-m", "tests.campaign.worker", outcome.part]
    words = [str(outcome.seed), str(first), str(count), str(keep)]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        selector = selectors.DefaultSelector()
        selector.register(process.stdout, selectors.EVENT_READ)
        buffered, limit, looked = b"", STARTING, 0.0
        while True:
            began, used = time.monotonic(), worked(process.pid)
            while not selector.select(1):
                seconds, waited = worked(process.pid) - used, time.monotonic() - began
                if seconds < limit and waited < limit * WAITING:
                    continue
                outcome.peak = max(outcome.peak, taken(process.pid))
                process.kill()
                _count(outcome, {"what": "hung", "seconds": waited})
                return
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                break
            buffered += chunk
            *lines, buffered = buffered.split(b"\n")
            for line in lines:
                if line:  # an empty first line means that the worker is ready
                    _count(outcome, json.loads(line))
            if time.monotonic() - looked > 0.5:
                outcome.peak, looked = max(outcome.peak, taken(process.pid)), time.monotonic()
            limit = SECONDS
        if process.wait() and outcome.tried < count:
            last = process.stderr.read().decode(errors="replace").strip().splitlines()
            reason = last[-1] if last else f"ended with status {process.returncode}"
            _count(outcome, {"what": "crashed", "kind": f"worker: {reason}"[:120], "seconds": 0})


def _count(outcome: Outcome, event: dict[str, object]) -> None:
    outcome.tried += 1
    outcome.slowest = round(max(outcome.slowest, float(str(event["seconds"]))), 2)
    outcome.peak = max(outcome.peak, int(str(event.get("peak", 0))))
    what = str(event["what"])
    setattr(outcome, what, getattr(outcome, what) + 1)
    if what == "crashed":
        kind = str(event["kind"])
        outcome.kinds[kind] = outcome.kinds.get(kind, 0) + 1


def require_line(refusal: Exception) -> None:
    """Raise AssertionError if the reason of a refusal is not one line."""
    assert len(str(refusal).splitlines()) == 1, str(refusal)


def taken(pid: int) -> int:
    """Return the peak memory of a process and its children in bytes, or 0 if the system does not report it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    held = int(status.split("VmHWM:")[1].split()[0]) << 10 if "VmHWM:" in status else 0
    return held + sum(taken(int(child)) for child in children)


def worked(pid: int) -> float:
    """Return the processor seconds of a process and all its children; 0 if the system does not report them."""
    try:
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK") + sum(worked(int(child)) for child in children)
