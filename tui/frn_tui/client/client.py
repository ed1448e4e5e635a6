"""Client of the engine process, which survives the engine's crashes.

A file, the system or the app may kill the engine. Calls then fail instead of waiting on a dead pipe. The next call
starts another engine with the same lock, model and classes, and the app is notified.
"""

import asyncio
import contextlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from frn.system.processes.messages import Message, convert, decode, encode
from frn_tui.client.file_requests import LockProject
from frn_tui.client.protocol import (
    INTERNAL,
    EmbedImages,
    EngineError,
    OnEvent,
    OpenModel,
    RenderPreview,
    Request,
    Result,
    SetClasses,
)
from frn_tui.terminal.pixels import next_number
from frn_tui.terminal.rendered_picture import Picture

REPLAYED = (LockProject, OpenModel, SetClasses)  # the last successful one of each is sent to a new engine first
ENDED = "ended"  # failure code: the engine was killed because another request did not stop
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""Settings of the engine's libraries: spinning threads would take the app's cores."""

Process = asyncio.subprocess.Process


@dataclass(slots=True)
class _Pending:
    end: asyncio.Future[Any]
    on_event: OnEvent | None


class EngineClient:
    """Client that starts, calls, restarts and stops the engine."""

    def __init__(
        self, *, log: Path | None = None, program: Sequence[str] = ("-m", "frn_tui.engine"), cancel_timeout: float = 2.0
    ) -> None:
        """Set up the client. `log` receives the output of the engine's libraries.

        A cancelled request may continue for `cancel_timeout` seconds, before the engine is killed.
        """
        self.on_restart: Callable[[], object] = lambda: None  # called after a new engine has replaced a dead one
        self.state: str = "not started"  # the engine's state; later "starting", "ready", "dead" or "closed"
        self.log = log
        names = "--app", str(os.getpid()), "--started", str(time.time_ns())
        self.command = [sys.executable, "-P", *program, "--log", str(log or os.devnull), *names]
        self._cancel_timeout = cancel_timeout
        self._process: Process | None = None
        self._settled = asyncio.Event()
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._replayed: dict[type[Request[Any]], Request[Any]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    async def call(self, request: Request[Result], on_event: OnEvent | None = None) -> Result:
        """Send a request and wait for its result; `on_event` receives its events.

        Cancelling the waiting task cancels the request. Raises EngineError if the request fails or the engine dies.
        """
        try:
            result = await self._ask(request, on_event)
        except EngineError as error:
            if error.code != ENDED or not isinstance(request, REPLAYED):
                raise
            result = await self._ask(request, on_event)
        if isinstance(request, REPLAYED):
            self._replayed[type(request)] = request
        return cast(Result, result)

    async def render(self, request: RenderPreview) -> Picture | None:
        """Request an image to draw; return None if it cannot be rendered."""
        try:
            picture = await self.call(request)
        except EngineError:
            return None
        return replace(picture, number=next_number()) if picture.is_pixels else picture

    async def close(self) -> None:
        """Stop the engine; pending calls fail."""
        self._settle("closed")
        self._fail_all("the engine was closed", ENDED)
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        if self._process is not None:
            await _end(self._process)
            self._process = None

    async def start(self) -> None:
        """Start an engine with the last lock, model and classes. Raises EngineError if it cannot be started."""
        if self.state == "closed":
            raise EngineError("the engine is closed")
        self.state = "starting"
        self._settled.clear()
        try:
            # Size limit of a message in bytes
            process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                process_group=0,  # ctrl-c in the terminal must reach only the app
                limit=64 << 20,
                env={**os.environ, **ENVIRONMENT},
            )
        except OSError as error:
            raise EngineError(f"the engine cannot be started ({error.strerror})") from error
        finally:
            self._settle("dead")  # also if the caller is cancelled
        if self.state == "closed":  # meanwhile
            await _end(process)
            raise EngineError("the engine is closed")
        self._process, self._stopping = process, False
        for request in self._replayed.values():  # before pending requests: each queue keeps its order
            if isinstance(request, SetClasses):  # a new engine has read no photo
                self._send(0, EmbedImages(paths=[str(photo.path) for photo in request.state.photos]))
            self._send(0, request)
        self._settle("ready")
        self._listening = asyncio.create_task(self._listen(process))

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        with contextlib.suppress(ValueError, ConnectionError):  # a line may be endless, or contain no message
            while line := await process.stdout.readline():
                self._receive(decode(line))
        await _end(process)
        crashed, status = not self._stopping, process.returncode
        self._settle("dead")
        cause = f"signal {-status}" if status is not None and status < 0 else f"status {status}"
        reason = f"the engine stopped ({cause})"
        self._fail_all(self._with_log(reason) if crashed else reason, "" if crashed else ENDED)

    def _settle(self, state: str) -> None:
        if self.state != "closed":
            self.state = state
        self._settled.set()

    def _kill_unless_ended(self, number: int) -> None:
        """Kill an engine that is still working on a request; the next call starts another."""
        if number in self._pending and self.state == "ready" and self._process is not None:
            self._stopping = True
            self.state = "starting"
            self._settled.clear()
            _kill(self._process)

    # Requests.

    async def _ready(self) -> None:
        while self.state == "starting":
            await self._settled.wait()
        if self.state == "dead":
            await self.start()
            self.on_restart()
        if self.state != "ready":
            raise EngineError(f"the engine is {self.state}")

    async def _ask(self, request: Request[Any], on_event: OnEvent | None) -> Any:
        await self._ready()
        number = next(self._numbers)
        pending = self._pending[number] = _Pending(asyncio.get_running_loop().create_future(), on_event)
        self._send(number, request)
        try:
            return convert(await pending.end, request.result)
        except asyncio.CancelledError:
            self._cancel(number)
            raise

    def _cancel(self, number: int) -> None:
        """Cancel a request; the engine is killed if it does not stop."""
        pending = self._pending.get(number)
        if pending is None or self.state != "ready":
            return
        pending.on_event = None
        self._write({"op": "cancel", "target": number})
        asyncio.get_running_loop().call_later(self._cancel_timeout, self._kill_unless_ended, number)

    def _send(self, number: int, request: Request[Any]) -> None:
        self._write({"id": number, "op": request.op, **vars(request)})

    def _write(self, message: Message) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError, RuntimeError):  # the engine died: `_listen` reports it
            self._process.stdin.write(encode(message))

    def _receive(self, message: Message) -> None:
        number = message.pop("id", None)
        pending = self._pending.get(number)
        if pending is None:
            return
        if "end" not in message:
            try:
                if pending.on_event is not None:
                    pending.on_event(message)
            except Exception as error:  # raise the caller's error to the caller
                _fail(pending.end, error)
                self._cancel(number)
            return
        del self._pending[number]
        if message["end"] != "done":
            reason, code = str(message.get("reason", message["end"])), str(message.get("code", ""))
            _fail(pending.end, EngineError(self._with_log(reason) if code == INTERNAL else reason, code=code))
        elif not pending.end.done():
            pending.end.set_result(message.get("result"))

    def _fail_all(self, reason: str, code: str) -> None:
        for pending in self._pending.values():
            _fail(pending.end, EngineError(reason, code=code))
        self._pending.clear()

    def _with_log(self, reason: str) -> str:
        return reason if self.log is None else f"{reason}; see {self.log}"


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


async def _end(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), 0.3)
    except TimeoutError:
        _kill(process)
        await process.wait()


def _kill(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "win32":
                process.kill()
            else:  # `process.kill` would first poll the status and take it from whoever waits for it
                os.kill(process.pid, signal.SIGKILL)
