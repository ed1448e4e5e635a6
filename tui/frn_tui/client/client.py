"""Client of the engine process, which survives the engine's crashes.

A file, the system or the app may kill the engine. Calls then fail instead of waiting on a dead pipe. The engine is
restarted with its model and classes, and the app is notified.
"""

import asyncio
import contextlib
import itertools
import os
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from frn.system.processes.messages import Message, convert, decode, encode
from frn_tui.client.engine_process import Process, cause_of_death, end, hear_hello, kill, spawn
from frn_tui.client.protocol import (
    INTERNAL,
    AskClasses,
    EmbedImages,
    EngineError,
    OnEvent,
    OpenModel,
    Request,
    Result,
    SetClasses,
)

CANCEL_TIMEOUT = 2.0
"""Seconds that a cancelled request may continue before the engine is killed."""
SILENCE_TIMEOUT = 10.0
"""Seconds of silence during a call after which the app is notified."""
EXIT_TIMEOUT = 0.3
"""Seconds that the engine has to exit."""
CRASHES, WITHIN = 3, 60.0
"""Number of crashes, and the seconds within which they occur, after which the engine is no longer restarted."""
REPLAYED = (OpenModel, SetClasses)
"""Requests that a new engine receives first: the last successful one of each type."""
RESUMED: dict[type[EmbedImages | AskClasses], str] = {EmbedImages: "embedded", AskClasses: "answer"}
"""Requests that continue in a new engine without the current file, mapped to their events."""


class EngineDiedError(EngineError):
    """The engine exited during a request."""

    def __init__(self, reason: str, opened: Collection[str], *, was_ended: bool) -> None:
        super().__init__(reason)
        self.opened = opened
        """Files that the request was reading, one of which may have crashed the engine."""
        self.was_ended = was_ended
        """Whether the engine was killed because another request did not stop."""


@dataclass(slots=True)
class _Pending:
    request: Request[Any]
    end: asyncio.Future[Any]
    on_event: OnEvent | None
    opened: set[str] = field(default_factory=set)


class EngineClient:
    """Client that starts, calls, restarts and stops the engine."""

    def __init__(
        self,
        *,
        log: Path | None = None,
        program: Sequence[str] = ("-m", "frn_tui.engine"),
        cancel_timeout: float = CANCEL_TIMEOUT,
        silence_timeout: float = SILENCE_TIMEOUT,
    ) -> None:
        """Set up the client. `log` receives the output of the engine's libraries; the other arguments are for tests."""
        self.on_restart: Callable[[], Awaitable[object] | None] | None = None
        """Called after a new engine has replaced a dead one."""
        self.on_silence: Callable[[], object] | None = None
        """Called if a request is waiting and the engine is silent."""
        self.state: Literal["new", "starting", "ready", "dead", "closed"] = "new"
        self.log = log
        self._command = [sys.executable, "-P", *program, "--log", str(log or os.devnull), "--app", str(os.getpid())]
        self._cancel_timeout, self._silence_timeout = cancel_timeout, silence_timeout
        self._process: Process | None = None
        self._settled = asyncio.Event()
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._replayed: dict[type[Request[Any]], Request[Any]] = {}
        self._crashes: deque[float] = deque(maxlen=CRASHES)
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_message = self._engine_quiet = 0.0
        self._silence_reported = self._stopping = False

    @property
    def pid(self) -> int | None:
        """Process id of the engine while it runs."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> None:
        """Start the engine, also after a crash. Raises EngineError if it does not start."""
        if self.state in ("new", "dead"):
            self._crashes.clear()
            await self._begin()
        await self._ready()

    async def call(self, request: Request[Result], on_event: OnEvent | None = None) -> Result:
        """Send a request and wait for its result; `on_event` receives its events.

        Cancelling the waiting task cancels the request. Raises EngineError if the request fails or the engine dies.
        """
        if isinstance(request, EmbedImages | AskClasses):
            return cast(Result, await self._ask_for_files(request, on_event))
        if not isinstance(request, REPLAYED):
            return cast(Result, await self._ask(request, on_event))
        result = await self._ask_whoever_is_there(request, on_event)
        self._replayed[type(request)] = request
        return cast(Result, result)

    async def close(self) -> None:
        """Stop the engine; pending calls fail."""
        self._settle("closed")
        self._fail_all("the engine was closed", blame=False)
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._process is not None:
            await end(self._process, EXIT_TIMEOUT)
            self._process = None

    # Lifecycle of an engine: start, listen, and restart after its death.

    async def _begin(self) -> None:
        if self.state == "closed":
            raise EngineError("the engine was closed")
        self.state = "starting"
        self._settled.clear()
        try:
            process = await self._spawn()
        except EngineError:
            self._settle("dead")
            raise
        self._last_message, self._engine_quiet, self._stopping = _now(), 0.0, False
        for request in self._replayed.values():  # before pending requests: each queue keeps its order
            self._send(0, request)
        self._settle("ready")
        self._start_task(self._listen(process))
        self._start_task(self._watch(process))

    async def _spawn(self) -> Process:
        process = await spawn(self._command)
        if self.state == "closed":  # meanwhile
            await end(process, 0)
            raise EngineError("the engine was closed")
        self._process = process
        await hear_hello(process)
        return process

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        with contextlib.suppress(ValueError, ConnectionError):  # a line may be endless, or contain no message
            while line := await process.stdout.readline():
                self._receive(decode(line))
        await end(process, EXIT_TIMEOUT)
        intended = self._stopping
        self._settle("dead")
        cause = f"the engine stopped ({cause_of_death(process.returncode)})"
        self._fail_all(cause if intended else self._with_log(cause), blame=not intended)
        if not intended:
            self._crashes.append(_now())
            if len(self._crashes) == CRASHES and self._crashes[-1] - self._crashes[0] <= WITHIN:
                return
        with contextlib.suppress(EngineError):
            await self._begin()
            if self.on_restart and (waiting := self.on_restart()) is not None:
                await waiting

    async def _watch(self, process: Process) -> None:
        while self._process is process and self.state == "ready":
            await asyncio.sleep(min(1.0, self._silence_timeout / 4))
            silent = max(_now() - self._last_message, self._engine_quiet) >= self._silence_timeout
            if not (silent and self._pending):
                self._silence_reported = False
            elif not self._silence_reported:
                self._silence_reported = True
                if self.on_silence:
                    self.on_silence()

    def _settle(self, state: Literal["ready", "dead", "closed"]) -> None:
        if self.state != "closed":
            self.state = state
        self._settled.set()

    def _start_task(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _kill_unless_ended(self, number: int) -> None:
        """Kill an engine that is still working on a request; `_listen` notices it and starts another."""
        if number in self._pending and self.state == "ready" and self._process is not None:
            self._stopping = True
            self.state = "starting"
            self._settled.clear()
            kill(self._process)

    # Requests.

    async def _ready(self) -> None:
        while self.state == "starting":
            await self._settled.wait()
        if self.state != "ready":
            what = {"new": "was not started", "dead": "is dead", "closed": "was closed"}[self.state]
            raise EngineError(f"the engine {what}")

    async def _ask(self, request: Request[Any], on_event: OnEvent | None) -> Any:
        await self._ready()
        number = next(self._numbers)
        pending = self._pending[number] = _Pending(request, asyncio.get_running_loop().create_future(), on_event)
        self._send(number, request)
        try:
            return await pending.end
        except asyncio.CancelledError:
            self._cancel(number)
            raise

    async def _ask_whoever_is_there(self, request: Request[Any], on_event: OnEvent | None) -> Any:
        """Send a replayed request, and repeat it if the engine was killed because of another request."""
        try:
            return await self._ask(request, on_event)
        except EngineDiedError as death:
            if not death.was_ended:
                raise
        return await self._ask(request, on_event)

    async def _ask_for_files(self, request: EmbedImages | AskClasses, on_event: OnEvent | None) -> None:
        """Send a request about files; if one of them kills the engine, continue once with the others."""
        paths, file_event = request.paths, RESUMED[type(request)]
        answered = 0

        def note(event: Message) -> None:
            nonlocal answered
            if event["event"] == file_event:
                answered += 1
            elif event["event"] == "progress":
                event = {**event, "done": answered, "total": len(paths)}
            if on_event:
                on_event(event)

        try:
            await self._ask(request, note)
            return
        except EngineDiedError as death:
            rest = paths[answered:]
            suspects = [path for path in rest if path in death.opened]
            if not rest:
                raise
        for path in suspects:
            if len(suspects) > 1:  # files are read in parallel: the culprit crashes again when read alone
                with contextlib.suppress(EngineDiedError):
                    await self._ask(replace(request, paths=[path]), note)
                    continue
            note({"event": file_event, "path": path, "reason": f"{path}: the engine stopped while reading this file"})
            break
        if rest := paths[answered:]:
            await self._ask(replace(request, paths=rest), note)

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
        self._last_message = _now()
        if message.get("event") == "alive":
            self._engine_quiet = message["quiet"]
            return
        number = message.pop("id", None)
        pending = self._pending.get(number)
        if pending is None:
            return
        if "end" in message:
            del self._pending[number]
            self._finish(pending, message)
        elif message["event"] == "reading":
            pending.opened.add(message["path"])
        elif pending.on_event is not None:
            try:
                pending.on_event(message)
            except Exception as error:  # raise the caller's error to the caller
                _fail(pending.end, error)
                self._cancel(number)

    def _fail_all(self, reason: str, *, blame: bool) -> None:
        for pending in self._pending.values():
            opened = pending.opened if blame else ()
            _fail(pending.end, EngineDiedError(reason, opened, was_ended=not blame))
        self._pending.clear()

    def _finish(self, pending: _Pending, message: Message) -> None:
        reason, code = str(message.get("reason", message["end"])), str(message.get("code", ""))
        if message["end"] == "done":
            try:
                result = convert(message.get("result"), pending.request.result)
            except ValueError as error:
                reason, code = f"invalid answer to {pending.request.op}: {error}", INTERNAL
            else:
                if not pending.end.done():
                    pending.end.set_result(result)
                return
        _fail(pending.end, EngineError(self._with_log(reason) if code == INTERNAL else reason, code=code))

    def _with_log(self, reason: str) -> str:
        return reason if self.log is None else f"{reason}; more in {self.log}"


def _fail(future: asyncio.Future[Message], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _now() -> float:
    return asyncio.get_running_loop().time()
