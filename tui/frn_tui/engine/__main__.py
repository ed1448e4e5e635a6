"""`python -m frn_tui.engine`: sends hello first and imports large modules afterwards."""

import argparse
import contextlib
import faulthandler
import os
import sys
from pathlib import Path

from frn_tui.client.protocol import PROTOCOL_VERSION
from frn_tui.engine.pipes import Sender, redirect_stdout

BEHIND = 7
"""Niceness of the engine: with few cores, the app's keys have priority."""
AUTOGROUP = Path("/proc/self/autogroup")
"""Linux file with the niceness of a session, which alone counts between sessions."""


def main() -> None:
    """Serve the app that started this process until it closes the pipe."""
    parser = argparse.ArgumentParser(prog="python -m frn_tui.engine")
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="What libraries print, and tracebacks.")
    parser.add_argument("--app", type=int, default=os.getppid(), help="Process that the journal belongs to.")
    options = parser.parse_args()
    send = Sender(redirect_stdout(options.log))
    send({"event": "hello", "protocol": PROTOCOL_VERSION, "pid": os.getpid()})
    step_back()
    faulthandler.enable()  # write a traceback if a library crashes
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning threads would take the app's cores
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with contextlib.suppress(KeyboardInterrupt):
        from frn_tui.engine.operations import build_handlers
        from frn_tui.engine.server import Server

        Server(build_handlers(options.app), send).run(sys.stdin.buffer)
    os._exit(0)  # a thread blocked by a dead file system must not keep the process


def step_back() -> None:
    """Lower this process's priority below the app's, before threads start, which would keep their own."""
    if not hasattr(os, "nice"):
        return
    os.nice(BEHIND)
    if os.getsid(0) == os.getpid():  # own session: this affects no other process
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(str(BEHIND))


if __name__ == "__main__":
    main()
