"""Reads requests of the app, passes them to the worker queues, and cancels them."""

import os
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, get_args

from frn.system.processes.messages import decode, encode
from frn_tui.client.protocol import Queue, parse
from frn_tui.engine.worker_queues import Handler, Job, WorkerQueue

EXIT_TIMEOUT = 0.15
"""Seconds that running jobs have to stop after the app is gone."""
MAX_LOG = 1 << 20
"""Bytes above which a log is restarted."""


def redirect_stdout(log: Path) -> IO[bytes]:
    """Redirect both output streams to the log; return the original standard output, which nothing else can write to."""
    pipe = os.fdopen(os.dup(1), "wb")
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        full = log.is_file() and log.stat().st_size > MAX_LOG
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if full else os.O_APPEND), 0o600)
    except OSError:  # full or read-only disk: work without a log
        descriptor = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    return pipe


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
            queue.close(EXIT_TIMEOUT)

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
