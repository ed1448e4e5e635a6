"""`python -m frn_tui.engine`: says hello first and imports what is large afterwards."""

import argparse
import contextlib
import faulthandler
import os
import sys
from pathlib import Path

from frn_tui.client.protocol import PROTOCOL_VERSION
from frn_tui.engine.pipes import Sender, redirect_stdout

BEHIND = 7
"""Niceness of the engine: if there are few cores, keys come first."""
AUTOGROUP = Path("/proc/self/autogroup")
"""Where Linux shares the processor between sessions, only this counts between them."""


def main() -> None:
    """Serve the app that started this process until it closes the pipe."""
    parser = argparse.ArgumentParser(prog="python -m frn_tui.engine")
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="What libraries print, and tracebacks.")
    parser.add_argument("--app", type=int, default=os.getppid(), help="Process that the journal belongs to.")
    options = parser.parse_args()
    send = Sender(redirect_stdout(options.log))
    send({"event": "hello", "protocol": PROTOCOL_VERSION, "pid": os.getpid()})
    step_back()
    faulthandler.enable()  # a library that crashes leaves a traceback, too
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # waiting threads would take the cores from the app
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with contextlib.suppress(KeyboardInterrupt):
        from frn_tui.engine.operations import build_handlers
        from frn_tui.engine.server import Server

        Server(build_handlers(options.app), send).run(sys.stdin.buffer)
    os._exit(0)  # a thread that is stuck in a dead file system must not hold the process


def step_back() -> None:
    """Leave the processor to the app where both want it; before any thread is started, which would keep its own."""
    if not hasattr(os, "nice"):
        return
    os.nice(BEHIND)
    if os.getsid(0) == os.getpid():  # the session is its own: nobody else is set back
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(str(BEHIND))


if __name__ == "__main__":
    main()
