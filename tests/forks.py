"""Run code in a fork of this process. A fork has a time limit and never continues with the tests."""

import os
import signal
import traceback
from collections.abc import Callable

SECONDS = 60  # seconds until the operating system kills a fork, even one that waits for a thread that does not exist
RAISED = 70  # exit status of a fork whose code raised an exception


def fork(work: Callable[[], object]) -> int:
    """Run a function in a fork that then exits with status 0, and return the process ID."""
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
    """Wait for a fork and return its exit status, or the negated number of the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
