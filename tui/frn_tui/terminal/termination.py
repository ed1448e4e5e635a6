"""The app is asked to end, or its terminal goes: it keeps what is unsaved and restores what it can."""

import asyncio
import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable
from typing import Any

EXIT_TIMEOUT = 3.0
"""Seconds that the app has to end once it was asked to."""


class SignalHandlers:
    """Handles SIGTERM and SIGHUP until they are given back to whoever had them."""

    def __init__(self, end: Callable[[int], object]) -> None:
        """Install them; `end` is called in the event loop with the signal's number."""
        loop = asyncio.get_running_loop()
        self._before: dict[int, Any] = {}

        def told(number: int, _: object) -> None:
            timer = threading.Timer(EXIT_TIMEOUT, os._exit, [128 + number])  # a terminal that is gone may block
            timer.daemon = True
            timer.start()
            loop.call_soon_threadsafe(end, number)

        for name in ("SIGTERM", "SIGHUP"):
            with contextlib.suppress(AttributeError, ValueError):  # not on every system, and only in the main thread
                number = getattr(signal, name)
                self._before[number] = signal.signal(number, told)

    def restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


def end_without_terminal() -> None:
    """End as at SIGHUP, which only reaches whom the terminal controls; reading from one that is gone never ends."""
    if terminal_is_gone(0):
        os.kill(os.getpid(), signal.SIGHUP)


def terminal_is_gone(descriptor: int) -> bool:
    """Return whether the other side of a terminal has been closed; never on systems that cannot tell."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(flags & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, flags in poll.poll(0))
