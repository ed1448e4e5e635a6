"""Run code in a fork of this process. A fork has a time limit and never continues with the tests itself."""

import os
import signal
import traceback
from collections.abc import Callable

SECONDS = 60
"""Seconds within which a fork must end. The system ends it then, even if it waits for a thread that does not exist."""
RAISED = 70
"""Exit status of a fork whose code raised."""


def fork(work: Callable[[], object]) -> int:
    """Run a function in a fork that then exits with status 0, and return its process number."""
    if process := os.fork():
        return process
    status = RAISED
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def ended(process: int) -> int:
    """Wait for a fork and return its exit status, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
