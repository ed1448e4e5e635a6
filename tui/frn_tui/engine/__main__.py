"""`python -m frn_tui.engine`: redirect all output, then import large modules and serve the app."""

import argparse
import contextlib
import faulthandler
import os
import sys
from pathlib import Path

from frn_tui.engine.worker_queues import Server, redirect_stdout


def main() -> None:
    """Serve the app that started this process until it closes the pipe."""
    parser = argparse.ArgumentParser(prog="python -m frn_tui.engine")
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="File for library output and tracebacks.")
    parser.add_argument("--app", type=int, default=os.getppid(), help="Process that owns the journal.")
    parser.add_argument("--started", type=int, default=0, help="Its start, because process ids repeat.")
    options = parser.parse_args()
    pipe = redirect_stdout(options.log)
    faulthandler.enable()  # write a traceback if a library crashes
    with contextlib.suppress(KeyboardInterrupt):
        from frn_tui.engine.operations import build_handlers

        server = Server(build_handlers(options.app, options.started), pipe)
        if hasattr(os, "nice"):
            os.nice(7)  # with few cores, the app's keys have priority; threads that start later inherit it
        server.run(sys.stdin.buffer)
    os._exit(0)  # a thread blocked by a dead file system must not keep the process


if __name__ == "__main__":
    main()
