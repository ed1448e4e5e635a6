"""Jobs, and the queues that process them in order, each on its own thread."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from frn.errors import FrnError
from frn_tui.client.protocol import INTERNAL, Request

Send = Callable[[Mapping[str, object]], None]
Check = Callable[[], None]
"""Raises `Cancelled` if the work is no longer wanted; must be called often."""


class Cancelled(Exception):  # noqa: N818  # no error: the app wanted it
    """Raised if the app no longer wants the answer."""


class Job:
    """A request in progress: how to answer it, and whether it is still wanted."""

    def __init__(self, number: object, request: Request[Any], send: Send) -> None:
        self.number = number
        self.request = request
        self.cancelled = threading.Event()
        self._send = send

    def check(self) -> None:
        """Raise Cancelled if the work is no longer wanted."""
        if self.cancelled.is_set():
            raise Cancelled

    def event(self, event: str, fields: Mapping[str, object]) -> None:
        self._send({"id": self.number, "event": event, **fields})

    def progress(self, done: int, total: int) -> None:
        self.event("progress", {"done": done, "total": total})

    def end(self, end: str, **fields: object) -> None:
        self._send({"id": self.number, "end": end, **fields})

    def fail(self, reason: str, code: str = "") -> None:
        self.end("failed", reason=" ".join(reason.splitlines()), code=code)


Handler = Callable[[Any, Job], object]
"""Function that answers a request of its type."""


def serve(handler: Handler, job: Job) -> None:
    """Handle a request and always send its end."""
    try:
        job.check()
        result = handler(job.request, job)
    except Cancelled:
        job.end("cancelled")
    except FrnError as error:
        job.fail(str(error), error.code)
    except Exception as error:
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {job.request.op}:", file=sys.stderr)
        traceback.print_exc()
        job.fail(f"internal error: {type(error).__name__}: {error}", INTERNAL)
    else:
        job.end("done", result=result)


class WorkerQueue:
    """Processes jobs in order."""

    def __init__(self, name: str, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._jobs: dict[Future[None], Job] = {}
        """Waiting jobs and the running one."""

    def submit(self, job: Job) -> None:
        future = self._pool.submit(serve, self._handlers[job.request.op], job)
        self._jobs[future] = job
        future.add_done_callback(self._jobs.pop)

    def cancel(self, number: object) -> None:
        """Drop a waiting job, or ask a running one to stop."""
        for future, job in list(self._jobs.items()):
            if job.number == number:
                job.cancelled.set()
                if future.cancel():
                    job.end("cancelled")

    def close(self, timeout: float) -> None:
        """Drop waiting jobs and give the running one `timeout` seconds to stop."""
        for job in list(self._jobs.values()):
            job.cancelled.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait(list(self._jobs), timeout)
