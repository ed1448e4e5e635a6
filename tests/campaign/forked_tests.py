"""`python -m tests.campaign.forked_tests`: run pytest in forks of a process that has imported the libraries.

Requests are lines of JSON, and an answer is an exit status. Each fork imports the program itself, so that it uses the
files currently on disk.
"""

import contextlib
import json
import os
import signal
import sys
import time

import numpy as np
import onnx
import onnxruntime
import PIL.Image
import pytest
import rich.console
import textual.app
import torch
import typer.testing

LIBRARIES = (np, onnx, onnxruntime, PIL, rich, textual, torch, typer)  # libraries to import once, in this process
OPTIONS = ("-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", "-m", "not slow and not campaign and not runtimes")
"""Nightly tests also count: some mutants are killed only by these."""


def main() -> None:
    for line in sys.stdin:
        wish = json.loads(line)
        if not (process := os.fork()):
            os.setsid()
            said = os.open(wish["said"], os.O_WRONLY | os.O_CREAT)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(said, 1)
            status = 1
            try:
                status = int(pytest.main([*OPTIONS, *wish["words"]]))
            finally:
                sys.stdout.flush()
                os._exit(status)
        print(_ended(process, wish["timeout"]), flush=True)


def _ended(process: int, timeout: float) -> int:
    """Return the exit status of a session's first process; kill the whole session at the time limit."""
    end = time.monotonic() + timeout
    status = -signal.SIGKILL
    while time.monotonic() < end:
        pid, found = os.waitpid(process, os.WNOHANG)
        if pid:
            status = os.waitstatus_to_exitcode(found)
            break
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)  # also kill processes left running by a mutant
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process, 0)
    return status


if __name__ == "__main__":
    main()
