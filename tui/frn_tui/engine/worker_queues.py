"""Jobs, the queues that process them in order, each on its own thread, and the server that reads the app's requests."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import IO, Any, get_args
from weakref import WeakKeyDictionary

from frn.errors import FrnError
from frn.system.processes.messages import decode, encode
from frn_tui.client.protocol import INTERNAL, Queue, Request, parse

MAX_LOG = 1 << 20  # bytes above which a log is restarted

Send = Callable[[Mapping[str, object]], None]
Check = Callable[[], None]  # raises `Cancelled` if the work is no longer wanted; must be called often


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


Handler = Callable[[Any, Job], object]  # function that answers a request of its type


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
        self._jobs: WeakKeyDictionary[Future[None], Job] = WeakKeyDictionary()  # waiting jobs and the running one

    def submit(self, job: Job) -> None:
        self._jobs[self._pool.submit(serve, self._handlers[job.request.op], job)] = job

    def cancel(self, number: object) -> None:
        """Drop a waiting job, or ask a running one to stop."""
        for future, job in list(self._jobs.items()):
            if job.number == number:
                job.cancelled.set()
                if future.cancel():
                    job.end("cancelled")

    def close(self, timeout: float) -> None:
        """Stop all jobs, and give the running one `timeout` seconds."""
        for job in list(self._jobs.values()):
            job.cancelled.set()
        wait(list(self._jobs), timeout)


class Server:
    """Passes requests to their worker queues."""

    def __init__(self, handlers: Mapping[str, Handler], pipe: IO[bytes]) -> None:
        self._pipe, self._lock = pipe, threading.Lock()
        self._queues = {name: WorkerQueue(name, handlers) for name in get_args(Queue)}

    def run(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            try:
                self.receive(decode(line))
            except ValueError as error:
                print(f"ignored: {error}", file=sys.stderr)
        for queue in self._queues.values():
            queue.close(0.15)  # seconds that running jobs have to stop after the app is gone

    def receive(self, message: Mapping[str, object]) -> None:
        """Start or cancel the request in a message."""
        if message.get("op") == "cancel":
            for queue in self._queues.values():
                queue.cancel(message.get("target"))
            return
        number = message.get("id")
        try:
            request = parse(message)
        except ValueError as error:
            self.send({"id": number, "end": "failed", "reason": str(error), "code": ""})
        else:
            self._queues[request.queue].submit(Job(number, request, self.send))

    def send(self, message: Mapping[str, object]) -> None:
        """Write a whole message, from any thread; exit the process if nobody reads any more."""
        with self._lock:
            try:
                self._pipe.write(encode(message))
                self._pipe.flush()
            except OSError:
                os._exit(1)


def redirect_stdout(log: Path) -> IO[bytes]:
    """Redirect both output streams to the log; return the original standard output, which nothing else can write to."""
    pipe = os.fdopen(os.dup(1), "wb")
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.is_file() and (log.stat().st_size > MAX_LOG or log.stat().st_nlink > 1):
            log.unlink()  # instead of emptying it, which would also empty its other names
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:  # full or read-only disk: work without a log
        descriptor = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    return pipe
