"""`frn-tui --web` as users start it: a process that serves a page."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from frn.system.extras import install_command
from tests import processes

START = 60.0
"""Seconds within which the server must start, even on a busy machine."""


@pytest.fixture
def server(private_state: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server on a free port in a separate session, and its address."""
    pytest.importorskip("textual_serve", reason=f"needs textual-serve: {install_command('web')}")
    command = [sys.executable, "-m", "frn_tui.main", "--web", "--port", "0"]
    with processes.started(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("frn-tui: http://127.0.0.1:"), line
        yield process, line.split()[1]


def page(address: str) -> str:
    for _ in range(int(START / 0.1)):
        try:
            with urlopen(Request(address), timeout=START) as answer:
                return str(answer.read().decode())
        except OSError:
            time.sleep(0.1)  # the line appears before the server listens
    raise AssertionError("no answer")


async def visit(address: str, origin: str) -> bytes:
    """Return the app's first paint for a visitor."""
    import aiohttp

    size = "width=100&height=30"
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{address}/ws?{size}", origin=origin) as socket:
        painted = b""
        while b"Classes" not in painted:
            message = await asyncio.wait_for(socket.receive(), START)
            assert message.type is aiohttp.WSMsgType.BINARY, message
            painted += message.data
        return painted


def children(pid: int) -> set[int]:
    """Return all descendants of a process."""
    found = processes.run(["ps", "-eo", "pid=,ppid="], check=True).stdout.split()
    parents = dict(zip(map(int, found[::2]), map(int, found[1::2]), strict=True))
    below = {pid}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return below - {pid}


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_page_responds_and_leaves_no_processes(server: tuple[subprocess.Popen[str], str]) -> None:
    process, address = server
    assert "frn-tui" in page(address)
    assert b"Classes" in asyncio.run(visit(address, address))
    with pytest.raises(Exception, match="403"):
        asyncio.run(visit(address, "http://evil.example"))

    async def leave_while_it_is_open() -> set[int]:
        import aiohttp

        async with aiohttp.ClientSession() as session, session.ws_connect(f"{address}/ws", origin=address) as socket:
            await asyncio.wait_for(socket.receive(), START)
            below = children(process.pid)
            assert below
            process.send_signal(signal.SIGTERM)
            async for _ in socket:  # confirm closing, as a browser does
                pass
            await asyncio.to_thread(process.wait, 20)
            return below

    below = asyncio.run(leave_while_it_is_open())
    assert process.returncode == 0
    for _ in range(100):
        if not any(map(running, below)):
            break
        time.sleep(0.05)
    assert not any(map(running, below))


def test_keys_and_images_work_immediately_and_reloading_ends_the_old_session(
    server: tuple[subprocess.Popen[str], str],
) -> None:
    process, address = server
    assert "googleapis" not in page(address)  # nothing is loaded from external hosts

    async def come_and_come_again() -> None:
        import aiohttp

        async with aiohttp.ClientSession() as session:
            async with session.ws_connect(f"{address}/ws?width=100&height=30", origin=address) as socket:
                painted = b""
                while b"\x1b]8117;" not in painted or b"keys" not in painted:
                    painted += (await asyncio.wait_for(socket.receive(), START)).data
                before = children(process.pid)
            async with session.ws_connect(f"{address}/ws?width=100&height=30", origin=address) as socket:
                await asyncio.wait_for(socket.receive(), START)
                for _ in range(200):
                    if not any(map(running, before)):
                        return
                    await asyncio.sleep(0.05)
        raise AssertionError("the first session goes on")

    asyncio.run(come_and_come_again())


def engines(pid: int) -> set[int]:
    """Return the engines among the descendants of a process."""
    found = processes.run(["ps", "-eo", "pid=,args="], check=True).stdout.splitlines()
    return {int(line.split()[0]) for line in found if "frn_tui.engine" in line} & children(pid)


def test_every_visitor_gets_an_engine_and_other_origins_are_refused(
    server: tuple[subprocess.Popen[str], str],
) -> None:
    process, address = server
    page(address)
    port = int(address.rpartition(":")[2])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # this sends nothing, but reveals the local address
        outer = probe.getsockname()[0]
    if not outer.startswith("127."):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((outer, port), timeout=START)

    async def visits() -> None:
        import aiohttp

        async with aiohttp.ClientSession() as session:
            for origin in (
                "null",
                "https://127.0.0.1",
                f"http://127.0.0.1:{port + 1}",
                f"{address}.evil.example",
                None,
            ):
                with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                    await session.ws_connect(f"{address}/ws", origin=origin)
            first, second = [
                await session.ws_connect(f"{address}/ws?width=100&height=30", origin=origin)
                for origin in (address, address.replace("127.0.0.1", "localhost"))
            ]
            both = await until(lambda: engines(process.pid), 2)
            await first.close()
            (left,) = await until(lambda: engines(process.pid), 1)
            assert left in both
            await second.close()
            await until(lambda: children(process.pid), 0)

    async def until(look: Callable[[], set[int]], count: int) -> set[int]:
        for _ in range(int(START / 0.1)):
            if len(found := look()) == count:
                return found
            await asyncio.sleep(0.1)
        raise AssertionError(f"{found}, not {count}")

    asyncio.run(visits())


def test_missing_extra_gives_a_one_line_error_with_the_install_command() -> None:
    code = "import sys; sys.modules['textual_serve'] = None; sys.argv = ['frn-tui', '--web', '--port', '0']; "
    found = processes.run([sys.executable, "-c", code + "from frn_tui.main import run; run()"])
    assert found.returncode == 1
    assert found.stderr == f"error: --web needs textual-serve, which is not installed: {install_command('web')}\n"


def test_used_port_gives_a_one_line_error(server: tuple[subprocess.Popen[str], str]) -> None:
    _, address = server
    page(address)
    port = address.rpartition(":")[2]
    command = [sys.executable, "-m", "frn_tui.main", "--web", "--port", port]
    found = processes.run(command, timeout=START)
    assert found.returncode == 1
    assert found.stderr == f"error: port {port} cannot be used (Address already in use); try --port\n"
