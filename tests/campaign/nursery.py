"""Fork the children of `frn.system.processes.sandbox` from a process with their imports, which is ten times as fast.

The campaign starts tens of thousands of them. Each then runs `serve` of that module under its usual limits.
"""

import importlib
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from functools import cache

from frn.system.processes import sandbox
from frn.system.processes.sandbox import SandboxedWorker, _end


class Forked:
    """The subset of `subprocess.Popen` that `SandboxedWorker` uses."""

    def __init__(self, pid: int, questions: int, answers: int) -> None:
        self.pid = pid
        self.stdin, self.stdout = os.fdopen(questions, "wb"), os.fdopen(answers, "rb")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 0
        return None

    def kill(self) -> None:
        """Kill the process."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the process to end."""
        while self.poll() is None:
            time.sleep(0.001)
        return 0


@cache
def _nursery(target: str) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.campaign.nursery", target, str(theirs.fileno())]
        subprocess.Popen(command, pass_fds=[theirs.fileno()])  # the process ends when the socket closes
    return ours


def _start(self: SandboxedWorker) -> Forked:
    if self.lives:
        return self._process  # type: ignore[return-value]
    self.close()
    nursery = _nursery(self.target)
    (for_questions, questions), (answers, for_answers) = os.pipe(), os.pipe()
    socket.send_fds(nursery, [b"%d" % self.memory], [for_questions, for_answers])
    for descriptor in (for_questions, for_answers):
        os.close(descriptor)
    child = Forked(int(nursery.recv(64)), questions, answers)
    self._process = child  # type: ignore[assignment]
    self._finalizer = weakref.finalize(self, _end, child)  # type: ignore[arg-type]
    self._await_start(child)  # type: ignore[arg-type]
    return child


def use() -> None:
    """Fork all children of this process from now on."""
    SandboxedWorker._start = _start  # type: ignore[assignment, method-assign]


def main() -> None:
    """Fork a child for each message, and answer with its process number."""
    target, requests = sys.argv[1], socket.socket(fileno=int(sys.argv[2]))
    importlib.import_module(target.partition(":")[0])
    if target.startswith("frn.features"):
        importlib.import_module("onnx")
        importlib.import_module("onnxruntime")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # let the system reap the children
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


if __name__ == "__main__":
    main()
