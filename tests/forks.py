"""Work in a fork of this process. A fork never outlives its time, and never goes on with the tests itself."""

import os
import signal
import traceback
from collections.abc import Callable

SECONDS = 60
"""Within which a fork has to end; the system ends it then, even if it waits for a thread that a fork does not have."""
RAISED = 70
"""Exit status of a fork whose work raised."""


def fork(work: Callable[[], object]) -> int:
    """Start work in a fork, which ends after it with status 0; its process number."""
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
    """Wait for a fork: its exit status, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
