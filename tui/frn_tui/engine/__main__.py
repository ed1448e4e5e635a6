"""`python -m frn_tui.engine`: sends `hello` first and imports large modules afterwards."""

import argparse
import contextlib
import faulthandler
import os
import sys
from pathlib import Path

from frn_tui.client.protocol import PROTOCOL_VERSION
from frn_tui.engine.pipes import Sender, redirect_stdout
from frn_tui.engine.worker_queues import Handler, Job

BEHIND = 7
"""Niceness of the engine: with few cores, the app's keys have priority."""
THREADS = "/proc/self/task"
"""Linux folder of the threads, each of which has its own niceness."""
AUTOGROUP = Path("/proc/self/autogroup")
"""Linux file with the niceness of a session, which alone counts between sessions."""


def main() -> None:
    """Serve the app that started this process until it closes the pipe."""
    parser = argparse.ArgumentParser(prog="python -m frn_tui.engine")
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="File for library output and tracebacks.")
    parser.add_argument("--app", type=int, default=os.getppid(), help="Process that owns the journal.")
    options = parser.parse_args()
    send = Sender(redirect_stdout(options.log))
    send({"event": "hello", "protocol": PROTOCOL_VERSION, "pid": os.getpid()})
    faulthandler.enable()  # write a traceback if a library crashes
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning threads would take the app's cores
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with contextlib.suppress(KeyboardInterrupt):
        from frn_tui.engine.operations import build_handlers
        from frn_tui.engine.server import Server

        handlers = build_handlers(options.app)
        handlers["embed"] = after_step_back(handlers["embed"])  # until then the app waits for class names
        Server(handlers, send).run(sys.stdin.buffer)
    os._exit(0)  # a thread blocked by a dead file system must not keep the process


def after_step_back(handler: Handler) -> Handler:
    """Return a handler that lowers the priority before its first request."""
    first = iter([True])

    def handle(request: object, job: Job) -> object:
        if next(first, False):
            step_back()
        return handler(request, job)

    return handle


def step_back() -> None:
    """Lower the priority of this process, with all its threads, below the app's."""
    if not hasattr(os, "nice"):
        return
    for thread in os.listdir(THREADS) if os.path.isdir(THREADS) else [0]:  # noqa: PTH112
        with contextlib.suppress(OSError):  # it has ended
            os.setpriority(os.PRIO_PROCESS, int(thread), os.getpriority(os.PRIO_PROCESS, int(thread)) + BEHIND)
    if os.getsid(0) == os.getpid():  # its own session: this affects no other process
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(str(BEHIND))


if __name__ == "__main__":
    main()
