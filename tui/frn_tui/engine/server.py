"""Reads what the app asks, hands it to the worker queues, and cancels."""

import sys
import threading
from collections.abc import Iterable, Mapping

from frn_tui.engine.worker_queues import Handler, Request, Send, WorkerQueue
from frn_tui.protocol import QUEUES, ProtocolError, decode

BEAT = 1.0
"""Seconds between signs of life."""
LAST_MOMENT = 0.15
"""Seconds that what runs has to stop, once the app is gone."""


class Server:
    """Hands requests to their worker queues."""

    def __init__(self, handlers: Mapping[str, Handler], send: Send) -> None:
        self._send = send
        self._queues = {name: WorkerQueue(name, handlers) for name in sorted(set(QUEUES.values()))}

    def run(self, lines: Iterable[bytes]) -> None:
        """Serve until the lines end."""
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        for line in lines:
            try:
                self.receive(decode(line))
            except ProtocolError as error:
                print(f"ignored: {error}", file=sys.stderr, flush=True)
        for queue in self._queues.values():
            queue.close(LAST_MOMENT)

    def receive(self, message: Mapping[str, object]) -> None:
        """Begin or cancel what a message asks for."""
        op = message.get("op")
        if op == "cancel":
            for queue in self._queues.values():
                queue.cancel(message.get("target"))
            return
        request = Request(message.get("id"), str(op), message, self._send)
        if op in QUEUES:
            self._queues[QUEUES[request.op]].submit(request)
        else:
            request.end("failed", {"reason": f"there is no operation {op!r}"})

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(BEAT):
            self._send({"event": "alive", "quiet": max(queue.quiet_for() for queue in self._queues.values())})
