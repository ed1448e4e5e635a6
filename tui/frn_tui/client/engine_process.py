"""The engine as a process: start with pipes, handshake, and exit."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence

from frn.system.processes.messages import decode
from frn_tui.client.protocol import PROTOCOL_VERSION, EngineError

MAX_LINE = 64 << 20
"""Size limit of a message in bytes."""
START_TIMEOUT = 30.0
"""Seconds in which an engine must send `hello`."""
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}

Process = asyncio.subprocess.Process


async def spawn(command: Sequence[str]) -> Process:
    """Start an engine, without waiting for `hello`."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=pipe,
            stdout=pipe,
            stderr=nothing,
            start_new_session=True,  # ctrl-c in the terminal must reach only the app
            limit=MAX_LINE,
            env={**os.environ, **ENVIRONMENT},
        )
    except OSError as error:
        raise EngineError(f"the engine cannot be started ({error.strerror})") from error


async def hear_hello(process: Process) -> None:
    """Wait for an engine's first message. If it is not `hello`, stop the engine and raise EngineError."""
    assert process.stdout is not None
    try:
        hello = decode(await asyncio.wait_for(process.stdout.readline(), START_TIMEOUT))
    except (TimeoutError, ValueError) as error:
        await end(process, 0)
        raise EngineError("the engine did not start") from error
    if hello.get("protocol") != PROTOCOL_VERSION:
        await end(process, 0)
        raise EngineError(f"the engine uses protocol {hello.get('protocol')}, but the app uses {PROTOCOL_VERSION}")


async def end(process: Process, timeout: float) -> None:
    """Stop a process: close its input, and kill it after the timeout."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), timeout)
    except TimeoutError:
        kill(process)
        await process.wait()


def kill(process: Process) -> None:
    """Kill a process if it is running."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.kill()
        else:  # `process.kill` would first poll the status and take it from whoever waits for it
            os.kill(process.pid, signal.SIGKILL)


def cause_of_death(status: int | None) -> str:
    """Describe why a process ended."""
    return f"signal {-status}" if status is not None and status < 0 else f"status {status}"
