"""Jobs, and the queues that serve them in order, each on a thread of its own."""

import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from frn.errors import FrnError
from frn_tui.client.protocol import INTERNAL, Request

Send = Callable[[Mapping[str, object]], None]
Check = Callable[[], None]
"""Raises `Cancelled` where the work is not wanted any more; to be called often."""


class Cancelled(Exception):  # noqa: N818  # no error: the app wanted it
    """The app does not want the answer any more."""


class Job:
    """A request that is being served: its way to answer, and whether the app still wants to know."""

    def __init__(self, number: object, request: Request[Any], send: Send) -> None:
        self.number = number
        self.request = request
        self.cancelled = threading.Event()
        self.last_progress = time.monotonic()
        self._send = send

    def check(self) -> None:
        """Note that the work gets on; raises Cancelled if it is not wanted any more."""
        self.last_progress = time.monotonic()
        if self.cancelled.is_set():
            raise Cancelled

    def event(self, event: str, fields: Mapping[str, object]) -> None:
        self.last_progress = time.monotonic()
        self._send({"id": self.number, "event": event, **fields})

    def progress(self, done: int, total: int) -> None:
        self.event("progress", {"done": done, "total": total})

    def end(self, end: str, fields: Mapping[str, object]) -> None:
        self._send({"id": self.number, "end": end, **fields})

    def fail(self, reason: str, code: str = "") -> None:
        self.end("failed", {"reason": " ".join(reason.splitlines()), "code": code})


Handler = Callable[[Any, Job], Mapping[str, object]]
"""Answers a request of its type."""


def serve(handler: Handler, job: Job) -> None:
    """Handle a request and send its end, whatever happens."""
    try:
        job.check()
        result = handler(job.request, job)
    except Cancelled:
        job.end("cancelled", {})
    except FrnError as error:
        job.fail(str(error), error.code)
    except Exception as error:
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {job.request.op}:", file=sys.stderr)
        traceback.print_exc()
        job.fail(f"internal error: {type(error).__name__}: {error}", INTERNAL)
    else:
        job.end("done", result)


class WorkerQueue:
    """Serves jobs in order."""

    def __init__(self, name: str, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._changed = threading.Condition()
        self._open = True
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        with self._changed:
            self._waiting.append(job)
            self._changed.notify()

    def cancel(self, number: object) -> None:
        """Drop a job that waits; ask one that runs to stop."""
        with self._changed:
            dropped = [job for job in self._waiting if job.number == number]
            for job in dropped:
                self._waiting.remove(job)
            if self._running is not None and self._running.number == number:
                self._running.cancelled.set()
        for job in dropped:
            job.end("cancelled", {})

    def quiet_for(self) -> float:
        """Seconds since the job that runs last got on; 0 where none does."""
        running = self._running
        return 0.0 if running is None else time.monotonic() - running.last_progress

    def close(self, timeout: float) -> None:
        """Drop what waits and give what runs a moment to stop."""
        with self._changed:
            self._waiting.clear()
            self._open = False
            if self._running is not None:
                self._running.cancelled.set()
            self._changed.notify()
        self._thread.join(timeout)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._running = None
                while self._open and not self._waiting:
                    self._changed.wait()
                if not self._open:
                    return
                self._running = self._waiting.popleft()
                self._running.last_progress = time.monotonic()
            serve(self._handlers[self._running.request.op], self._running)
