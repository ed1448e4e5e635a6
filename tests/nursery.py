"""Fork the children of `frn.system.processes.sandbox` from a process with their imports, which is ten times as fast.

Tests start a thousand of them, the campaign tens of thousands. Each then runs `serve` of that module under its usual
limits. Targets outside the program, such as those of the sandbox's own tests, start as they do for a user.
"""

import atexit
import contextlib
import importlib
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from functools import cache
from pathlib import Path
from types import FrameType
from typing import cast

from frn.system.processes import sandbox
from frn.system.processes.sandbox import SandboxedWorker, _end
from tests.processes import lives

STARTED_ALONE = SandboxedWorker._start


class Forked:
    """The subset of `subprocess.Popen` that `SandboxedWorker` uses."""

    def __init__(self, pid: int, questions: int, answers: int) -> None:
        self.pid = pid
        self.stdin, self.stdout = os.fdopen(questions, "wb"), os.fdopen(answers, "rb")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return None if lives(self.pid) else 0

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        while lives(self.pid):
            time.sleep(0.001)
        return 0


@cache
def _nursery(target: str, parent: int) -> socket.socket:
    """Start a nursery of a process, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.nursery", target, str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=Path(__file__).parents[1])

    def end() -> None:
        if os.getpid() == parent:
            ours.close()
            process.wait()

    atexit.register(end)
    return ours


def _start(self: SandboxedWorker) -> subprocess.Popen[bytes]:
    if self.lives or not self.target.startswith("frn."):
        return STARTED_ALONE(self)
    self.close()
    nursery = _nursery(self.target, os.getpid())
    (for_questions, questions), (answers, for_answers) = os.pipe(), os.pipe()
    socket.send_fds(nursery, [b"%d" % self.memory], [for_questions, for_answers])
    for descriptor in (for_questions, for_answers):
        os.close(descriptor)
    child = cast("subprocess.Popen[bytes]", Forked(int(nursery.recv(64)), questions, answers))
    self._process, self._finalizer = child, weakref.finalize(self, _end, child)
    self._await_start(child)
    return child


def use() -> None:
    """Fork all children of this process from now on."""
    SandboxedWorker._start = _start  # type: ignore[method-assign]


def main() -> None:
    """Fork a child for each message, and answer with its process number."""
    target, requests = sys.argv[1], socket.socket(fileno=int(sys.argv[2]))
    importlib.import_module(target.partition(":")[0])
    if target.startswith("frn.features"):
        importlib.import_module("onnx")
        importlib.import_module("onnxruntime")
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 64, 2)
        if not message:
            return
        if pid := os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
            requests.send(b"%d" % pid)
            continue
        requests.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for descriptor, place in zip(descriptors, (0, 1), strict=True):
            os.dup2(descriptor, place)
            os.close(descriptor)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sandbox.serve(target, int(message))
        os._exit(0)


def _reap(number: int, frame: FrameType | None) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main()
