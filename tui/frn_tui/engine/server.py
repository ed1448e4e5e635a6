"""Reads requests of the app, passes them to the worker queues, and cancels them."""

import sys
import threading
from collections.abc import Iterable, Mapping
from typing import get_args

from frn.system.processes.messages import decode
from frn_tui.client.protocol import Queue, parse
from frn_tui.engine.worker_queues import Handler, Job, Send, WorkerQueue

HEARTBEAT = 1.0
"""Seconds between heartbeats."""
EXIT_TIMEOUT = 0.15
"""Seconds that running jobs have to stop after the app is gone."""


class Server:
    """Passes requests to their worker queues."""

    def __init__(self, handlers: Mapping[str, Handler], send: Send) -> None:
        self._send = send
        self._queues = {name: WorkerQueue(name, handlers) for name in get_args(Queue)}

    def run(self, lines: Iterable[bytes]) -> None:
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
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
            self._send({"id": number, "end": "failed", "reason": str(error), "code": ""})
        else:
            self._queues[request.queue].submit(Job(number, request, self._send))

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(HEARTBEAT):
            self._send({"event": "alive", "quiet": max(queue.quiet_for() for queue in self._queues.values())})
