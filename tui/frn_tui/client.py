"""The app's end of the pipe: asks the engine, and outlives it.

The engine may be killed by a file it reads, by the system or by us. A call never waits on a dead pipe: it fails, the
engine is started again and given its model and classes, and the app is told. Standard library only.
"""

import asyncio
import contextlib
import itertools
import os
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from frn_tui.protocol import VERSION, ProtocolError, decode, encode

LINE = 64 << 20
"""Bytes that a message may have."""
HELLO = 30.0
"""Seconds within which an engine says hello."""
PATIENCE = 2.0
"""Seconds that a cancelled request has to stop before the engine is killed."""
SILENCE = 10.0
"""Seconds without a sign of life, while someone waits, from which on the app is told."""
FAREWELL = 0.3
"""Seconds that the engine has to leave."""
CRASHES, WITHIN = 3, 60.0
"""So many crashes within so many seconds, and the engine is not started again by itself."""
KEPT = ("open_model", "classes")
"""What a new engine is told first: the last of each that succeeded."""
RESUMED = {"embed": "embedded", "query": "answer"}
"""What goes on in a new engine without the file that was being read, and its event for a file."""
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}

Message = dict[str, Any]
OnEvent = Callable[[Message], None]


class EngineError(Exception):
    """A request failed: the engine's reason, in one line."""


class EngineDiedError(EngineError):
    """The engine ended while a request waited."""

    def __init__(self, reason: str, reading: str | None) -> None:
        super().__init__(reason)
        self.reading = reading
        """File that it was reading for the request, where that may be what ended it."""


@dataclass(slots=True)
class _Pending:
    end: asyncio.Future[Message]
    on_event: OnEvent | None
    reading: str | None = None


class EngineClient:
    """Starts the engine, asks it, starts it again where it dies, and ends it."""

    def __init__(
        self,
        *,
        log: Path | None = None,
        device: str = "cpu",
        program: Sequence[str] = ("-m", "frn_tui.engine"),
        patience: float = PATIENCE,
        silence: float = SILENCE,
    ) -> None:
        """Prepare; `start` starts.

        Args:
            log: file for what the engine's libraries print, and for tracebacks.
            device: where networks run: cpu, cuda or auto. CUDA takes a second to come up.
            program: of Python; a test's own.
            patience: as `PATIENCE`.
            silence: as `SILENCE`.
        """
        self.on_restart: Callable[[], Awaitable[object] | None] | None = None
        """Called once a new engine has taken a dead one's place."""
        self.on_silence: Callable[[], object] | None = None
        """Called where a call waits and nothing is heard."""
        self.state: Literal["new", "starting", "ready", "dead", "closed"] = "new"
        where = ("--log", str(log or os.devnull), "--device", device, "--app", str(os.getpid()))
        self._command = [sys.executable, "-P", *program, *where]
        self._patience, self._silence = patience, silence
        self._process: asyncio.subprocess.Process | None = None
        self._settled = asyncio.Event()
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._kept: dict[str, Mapping[str, Any]] = {}
        self._crashes: deque[float] = deque(maxlen=CRASHES)
        self._tasks: set[asyncio.Task[None]] = set()
        self._heard = self._quiet = 0.0
        self._told = self._stopping = False

    @property
    def pid(self) -> int | None:
        """The engine's process, while there is one."""
        return self._process.pid if self._process and self._process.returncode is None else None

    @property
    def _closed(self) -> bool:
        return self.state == "closed"

    async def start(self) -> None:
        """Start the engine, also one that is dead.

        Raises:
            EngineError: if it does not start.
        """
        if self.state in ("new", "dead"):
            self._crashes.clear()
            await self._begin()
        await self._ready()

    async def call(self, op: str, on_event: OnEvent | None = None, **arguments: Any) -> Message:
        """Ask the engine and wait for the end. Cancelling the task that waits cancels the request.

        Args:
            op: an operation of `protocol.QUEUES`.
            on_event: told of events on the way.
            arguments: of the operation.

        Raises:
            EngineError: with the reason, if the request failed or the engine died.
        """
        if op in RESUMED:
            return await self._ask_for_files(op, on_event, arguments)
        end = await self._ask(op, on_event, arguments)
        if op in KEPT:
            self._kept[op] = arguments
        return end

    async def restart(self) -> None:
        """Kill the engine, whatever it does, and start another.

        Raises:
            EngineError: if that does not start.
        """
        self._stop()
        await self.start()

    async def close(self) -> None:
        """End the engine; calls that wait fail."""
        self._settle("closed")
        self._fail_all("the engine was closed", blame=False)
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._process is not None:
            await _end(self._process, FAREWELL)
            self._process = None

    # One life of an engine: begin, listen, and after its death begin again.

    async def _begin(self) -> None:
        if self._closed:
            raise EngineError("the engine was closed")
        self.state = "starting"
        self._settled.clear()
        try:
            process = await self._spawn()
        except EngineError:
            self._settle("dead")
            raise
        self._heard, self._quiet, self._stopping = _now(), 0.0, False
        for op, arguments in self._kept.items():  # ahead of whatever waits: a queue keeps the order
            self._send({"id": 0, "op": op, **arguments})
        self._settle("ready")
        self._go(self._listen(process))
        self._go(self._watch(process))

    async def _spawn(self) -> asyncio.subprocess.Process:
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=nothing,
                start_new_session=True,  # ctrl-c in the terminal is the app's
                limit=LINE,
                env={**os.environ, **ENVIRONMENT},
            )
        except OSError as error:
            raise EngineError(f"the engine cannot be started ({error.strerror})") from error
        if self._closed:  # meanwhile
            await _end(process, 0)
            raise EngineError("the engine was closed")
        self._process = process
        assert process.stdout is not None
        try:
            hello = decode(await asyncio.wait_for(process.stdout.readline(), HELLO))
        except (TimeoutError, ProtocolError, ValueError) as error:
            await _end(process, 0)
            raise EngineError("the engine does not start") from error
        if hello.get("protocol") != VERSION:
            await _end(process, 0)
            raise EngineError(f"the engine speaks protocol {hello.get('protocol')}, the app {VERSION}")
        return process

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        with contextlib.suppress(ValueError, ProtocolError, ConnectionError):  # a line without end, or no message
            while line := await process.stdout.readline():
                self._receive(decode(line))
        await _end(process, FAREWELL)
        intended = self._stopping
        self._settle("dead")
        self._fail_all(f"the engine stopped ({_cause(process.returncode)})", blame=not intended)
        if not intended and not self._may_restart():
            return
        with contextlib.suppress(EngineError):
            await self._begin()
            if self.on_restart and (waiting := self.on_restart()) is not None:
                await waiting

    def _may_restart(self) -> bool:
        self._crashes.append(_now())
        return len(self._crashes) < CRASHES or self._crashes[-1] - self._crashes[0] > WITHIN

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        while self._process is process and self.state == "ready":
            await asyncio.sleep(min(1.0, self._silence / 4))
            silent = max(_now() - self._heard, self._quiet) >= self._silence
            if not (silent and self._pending):
                self._told = False
            elif not self._told:
                self._told = True
                if self.on_silence:
                    self.on_silence()

    def _settle(self, state: Literal["ready", "dead", "closed"]) -> None:
        if self.state != "closed":
            self.state = state
        self._settled.set()

    def _go(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _stop(self) -> None:
        """Kill the engine; `_listen` notices and starts another."""
        if self.state == "ready" and self._process is not None:
            self._stopping = True
            self.state = "starting"
            self._settled.clear()
            _kill(self._process)

    # Requests.

    async def _ready(self) -> None:
        while self.state == "starting":
            await self._settled.wait()
        if self.state != "ready":
            what = {"new": "was not started", "dead": "is dead", "closed": "was closed"}[self.state]
            raise EngineError(f"the engine {what}")

    async def _ask(self, op: str, on_event: OnEvent | None, arguments: Mapping[str, Any]) -> Message:
        await self._ready()
        number = next(self._numbers)
        pending = self._pending[number] = _Pending(asyncio.get_running_loop().create_future(), on_event)
        self._send({"id": number, "op": op, **arguments})
        try:
            return await pending.end
        except asyncio.CancelledError:
            self._give_up(number)
            raise

    async def _ask_for_files(self, op: str, on_event: OnEvent | None, arguments: Mapping[str, Any]) -> Message:
        """Ask about files; where one of them kills the engine, go on once with the others."""
        paths = list(arguments["paths"])
        told = [0, 0]  # good, broken

        def note(event: Message) -> None:
            if event["event"] == RESUMED[op]:
                told["reason" in event] += 1
            elif event["event"] == "progress":
                event = {**event, "done": sum(told), "total": len(paths)}
            if on_event:
                on_event(event)

        try:
            return await self._ask(op, note, arguments)
        except EngineDiedError as death:
            rest, culprit = paths[sum(told) :], death.reading
            if not rest:
                raise
        at = rest.index(culprit) if culprit in rest else len(rest)
        await self._ask(op, note, {**arguments, "paths": rest[:at]})
        if at < len(rest):
            reason = f"{culprit}: reading it stopped the engine"
            note({"event": RESUMED[op], "path": culprit, "reason": reason})
            await self._ask(op, note, {**arguments, "paths": rest[at + 1 :]})
        return {"done": told[0], "broken": told[1]}

    def _give_up(self, number: int) -> None:
        """Cancel a request; an engine that does not stop is killed."""
        pending = self._pending.get(number)
        if pending is None or self.state != "ready":
            return
        pending.on_event = None
        self._send({"op": "cancel", "target": number})
        asyncio.get_running_loop().call_later(self._patience, self._lose_patience, number)

    def _lose_patience(self, number: int) -> None:
        if number in self._pending:
            self._stop()

    def _send(self, message: Message) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError, RuntimeError):  # it has died: `_listen` tells everyone
            self._process.stdin.write(encode(message))

    def _receive(self, message: Message) -> None:
        self._heard = _now()
        if message.get("event") == "alive":
            self._quiet = message["quiet"]
            return
        number = message.pop("id", None)
        pending = self._pending.get(number)
        if pending is None:
            return
        if "end" in message:
            del self._pending[number]
            _finish(pending.end, message)
        elif message["event"] == "reading":
            pending.reading = message["path"]
        elif pending.on_event is not None:
            try:
                pending.on_event(message)
            except Exception as error:  # the caller's mistake is the caller's to see
                _fail(pending.end, error)
                self._give_up(number)

    def _fail_all(self, reason: str, *, blame: bool) -> None:
        for pending in self._pending.values():
            _fail(pending.end, EngineDiedError(reason, pending.reading if blame else None))
        self._pending.clear()


def _finish(future: asyncio.Future[Message], message: Message) -> None:
    end = message.pop("end")
    if end != "done":
        _fail(future, EngineError(message.get("reason", end)))
    elif not future.done():
        future.set_result(message)


def _fail(future: asyncio.Future[Message], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


async def _end(process: asyncio.subprocess.Process, patience: float) -> None:
    """Let a process go: it leaves when its input ends, or is killed."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), patience)
    except TimeoutError:
        _kill(process)
        await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.kill()
        else:  # `kill` would look for its status first, and take that from the one who waits for it
            os.kill(process.pid, signal.SIGKILL)


def _cause(status: int | None) -> str:
    return f"signal {-status}" if status is not None and status < 0 else f"status {status}"


def _now() -> float:
    return asyncio.get_running_loop().time()
