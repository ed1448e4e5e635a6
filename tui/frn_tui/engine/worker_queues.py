"""Requests and the queues that serve them in order, each on a thread of its own."""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from frn.errors import FrnError

Send = Callable[[Mapping[str, object]], None]


class Cancelled(Exception):  # noqa: N818  # no error: the app wanted it
    """The app does not want the answer any more."""


class Request:
    """What the app asks for, its way to answer, and whether it still wants to know."""

    def __init__(self, number: object, op: str, arguments: Mapping[str, Any], send: Send) -> None:
        self.number = number
        self.op = op
        self.arguments = arguments
        self.cancelled = threading.Event()
        self.sign_of_life = time.monotonic()
        """When the operation last got on."""
        self._send = send

    def check(self) -> None:
        """Note that the work gets on; to be called often.

        Raises:
            Cancelled: if the work is not wanted any more.
        """
        self.sign_of_life = time.monotonic()
        if self.cancelled.is_set():
            raise Cancelled

    def event(self, event: str, fields: Mapping[str, object]) -> None:
        """Tell the app something on the way."""
        self.sign_of_life = time.monotonic()
        self._send({"id": self.number, "event": event, **fields})

    def progress(self, done: int, total: int) -> None:
        """Tell how far the work is."""
        self.event("progress", {"done": done, "total": total})

    def end(self, end: str, fields: Mapping[str, object]) -> None:
        """Tell the app that this was all."""
        self._send({"id": self.number, "end": end, **fields})

    def text(self, name: str) -> str:
        """An argument that is text."""
        value = self.arguments.get(name)
        if not isinstance(value, str):
            raise FrnError(f"{self.op}: {name!r} should be text, not {value!r}")
        return value

    def texts(self, name: str) -> list[str]:
        """An argument that is a list of texts."""
        values = self.arguments.get(name)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise FrnError(f"{self.op}: {name!r} should be a list of texts")
        return values

    def whole(self, name: str, least: int, most: int) -> int:
        """An argument that is a whole number from `least` to `most`."""
        value = self.arguments.get(name)
        if type(value) is not int or not least <= value <= most:
            raise FrnError(f"{self.op}: {name!r} should be a whole number from {least} to {most}, not {value!r}")
        return value

    def flag(self, name: str) -> bool:
        """An argument that is yes or no; no by default."""
        return self.arguments.get(name) is True


Handler = Callable[[Request], Mapping[str, object]]


def serve(handler: Handler, request: Request) -> None:
    """Handle a request and send its end, whatever happens."""
    try:
        request.check()
        result = handler(request)
    except Cancelled:
        request.end("cancelled", {})
    except FrnError as error:
        request.end("failed", {"reason": " ".join(str(error).splitlines())})
    except Exception as error:
        traceback.print_exc()
        reason = " ".join(f"{type(error).__name__}: {error}".splitlines())
        request.end("failed", {"reason": f"internal error: {reason}"})
    else:
        request.end("done", result)


class WorkerQueue:
    """Serves requests in order."""

    def __init__(self, name: str, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._waiting: deque[Request] = deque()
        self._running: Request | None = None
        self._changed = threading.Condition()
        self._open = True
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Serve a request after those that wait."""
        with self._changed:
            self._waiting.append(request)
            self._changed.notify()

    def cancel(self, number: object) -> None:
        """Drop a request that waits; ask one that runs to stop."""
        with self._changed:
            dropped = [request for request in self._waiting if request.number == number]
            for request in dropped:
                self._waiting.remove(request)
            if self._running is not None and self._running.number == number:
                self._running.cancelled.set()
        for request in dropped:
            request.end("cancelled", {})

    def quiet_for(self) -> float:
        """Seconds since the request that runs last got on; 0 where none does."""
        running = self._running
        return 0.0 if running is None else time.monotonic() - running.sign_of_life

    def close(self, patience: float) -> None:
        """Drop what waits and give what runs a moment to stop."""
        with self._changed:
            self._waiting.clear()
            self._open = False
            if self._running is not None:
                self._running.cancelled.set()
            self._changed.notify()
        self._thread.join(patience)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._running = None
                while self._open and not self._waiting:
                    self._changed.wait()
                if not self._open:
                    return
                self._running = self._waiting.popleft()
                self._running.sign_of_life = time.monotonic()
            serve(self._handlers[self._running.op], self._running)
