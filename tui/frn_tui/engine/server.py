"""From lines to lanes: reads what the app asks, and lets it be cancelled."""

import sys
import threading
from collections.abc import Iterable, Mapping

from frn_tui.engine.lanes import Handler, Lane, Request, Send
from frn_tui.protocol import LANES, ProtocolError, decode

BEAT = 1.0
"""Seconds between signs of life."""
LAST_MOMENT = 0.15
"""Seconds that what runs has to stop, once the app is gone."""


class Server:
    """Hands requests to their lanes."""

    def __init__(self, handlers: Mapping[str, Handler], send: Send) -> None:
        self._send = send
        self._lanes = {name: Lane(name, handlers) for name in sorted(set(LANES.values()))}

    def run(self, lines: Iterable[bytes]) -> None:
        """Serve until the lines end."""
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        for line in lines:
            try:
                self.receive(decode(line))
            except ProtocolError as error:
                print(f"ignored: {error}", file=sys.stderr, flush=True)
        for lane in self._lanes.values():
            lane.close(LAST_MOMENT)

    def receive(self, message: Mapping[str, object]) -> None:
        """Begin or cancel what a message asks for."""
        op = message.get("op")
        if op == "cancel":
            for lane in self._lanes.values():
                lane.cancel(message.get("target"))
            return
        request = Request(message.get("id"), str(op), message, self._send)
        if op in LANES:
            self._lanes[LANES[request.op]].submit(request)
        else:
            request.end("failed", {"reason": f"there is no operation {op!r}"})

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(BEAT):
            self._send({"event": "alive", "quiet": max(lane.quiet_for() for lane in self._lanes.values())})
