"""Termination of the app by a signal or a lost terminal: unsaved work is kept and signal handlers restored."""

import asyncio
import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable
from typing import Any


def handle_signals(end: Callable[[int], object]) -> Callable[[], None]:
    """Call `end` in the event loop with the number of SIGTERM or SIGHUP; return what restores the previous handlers."""
    loop = asyncio.get_running_loop()
    handlers: dict[int, Any] = {}

    def told(number: int, _: object) -> None:
        # Seconds that the app has to exit after a request
        timer = threading.Timer(3.0, os._exit, [128 + number])  # a lost terminal may block
        timer.daemon = True
        timer.start()
        loop.call_soon_threadsafe(end, number)

    def restore() -> None:
        for number, before in handlers.items():
            signal.signal(number, before)

    for name in ("SIGTERM", "SIGHUP"):
        with contextlib.suppress(AttributeError, ValueError):  # only on some systems and in the main thread
            number = getattr(signal, name)
            handlers[number] = signal.signal(number, told)
    return restore


def end_without_terminal() -> None:
    """Exit as on SIGHUP if the terminal is gone.

    The signal only reaches processes that the terminal controls, and reading from a lost terminal never ends.
    """
    if hasattr(select, "poll"):  # other systems cannot tell
        poll = select.poll()
        poll.register(0, 0)
        if any(flags & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, flags in poll.poll(0)):
            os.kill(os.getpid(), signal.SIGHUP)
