"""`frn-tui --web` as users start it: a process that serves a page."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from frn.system.extras import install_command
from tests import processes

pytest.importorskip("textual_serve", reason=f"needs textual-serve: {install_command('web')}")
aiohttp = pytest.importorskip("aiohttp")

Server = tuple[subprocess.Popen[str], str]  # and its address
START = 60.0  # seconds within which the server must start, even on a busy machine


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Start a server on a free port in a separate session, and return it with its address."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", "frn_tui.main", "--web", "--port", "0", "--model", "conv4"]
    variables = {**os.environ, "FRN_STATE": str(folder / "state"), "FRN_CACHE": str(folder / "cache")}
    with processes.started(command, env=variables, **pipes) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("frn-tui: http://127.0.0.1:"), line
        yield process, line.split()[1]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as started:
        yield started


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for all tests that leave it running."""
    with serving(tmp_path_factory.mktemp("served")) as started:
        yield started


def origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


async def get(address: str, **headers: str) -> tuple[int, str, Any]:
    """Return status, text and headers of a page of a server that may still be starting."""
    async with aiohttp.ClientSession() as session:
        for _ in range(int(START / 0.1)):
            try:
                async with session.get(address, headers=headers) as answer:
                    return answer.status, await answer.text(), answer.headers
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.1)  # the line appears before the server listens
    raise AssertionError("no answer")


@asynccontextmanager
async def visit(address: str, size: str = "width=100&height=30", *, source: str | None = "") -> Any:
    """Open the connection of a page; `source` is the origin of the page."""
    source = origin(address) if source == "" else source
    await get(address)
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{address}ws?{size}", origin=source) as page:
        yield page


async def until_painted(page: Any, *words: bytes) -> None:
    painted = b""
    while not all(word in painted for word in words):
        message = await asyncio.wait_for(page.receive(), START)
        assert message.type is aiohttp.WSMsgType.BINARY, message
        painted += message.data


def running(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


async def until(look: Callable[[], set[int]], count: int) -> set[int]:
    for _ in range(int(START / 0.1)):
        if len(pids := look()) == count:
            return pids
        await asyncio.sleep(0.1)
    raise AssertionError(f"{pids}, not {count}")


async def test_page_cannot_be_framed_or_load_from_other_hosts(shared: Server) -> None:
    status, text, headers = await get(shared[1])
    policy = headers["Content-Security-Policy"]
    assert status == 200
    assert "frn-tui" in text
    assert "{{" not in text
    assert "googleapis" not in text
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"


async def test_nothing_is_served_without_the_secret_in_the_address(shared: Server) -> None:
    _, address = shared
    home = origin(address)
    secret = address.rstrip("/").rpartition("/")[2]
    assert len(secret) >= 32
    for path, headers in (
        ("/", {}),
        ("/ws", {}),
        (f"/{secret[:-1]}/", {}),
        (f"/{secret}x/ws", {"Origin": home}),
        (f"/{secret}/", {"Host": "evil.example"}),
        ("/static/js/textual.js", {"Host": "evil.example"}),
    ):
        status, text, _ = await get(home + path, **headers)
        assert status == 404
        assert secret not in text
    for path in ("/static", "/static/", "/static/js", "/static/js/"):
        assert (await get(home + path))[0] in (403, 404), path
    assert (await get(f"{home}/static/js/textual.js"))[0] == 200


async def test_only_its_own_page_on_this_machine_can_connect(shared: Server) -> None:
    process, address = shared
    home, port = origin(address), urlsplit(address).port or 0
    for source in ("null", "https://127.0.0.1", f"http://127.0.0.1:{port + 1}", f"{home}.evil.example", None):
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            async with visit(address, source=source):
                pass
    assert not processes.children(process.pid)
    async with visit(address) as page, visit(address.replace("127.0.0.1", "localhost")):
        both = await until(lambda: processes.children(process.pid, "frn_tui.engine"), 2)
        await page.close()
        (other,) = await until(lambda: processes.children(process.pid, "frn_tui.engine"), 1)
        assert other in both
    await until(lambda: processes.children(process.pid), 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # this sends nothing, but reveals the local address
        outer = probe.getsockname()[0]
    if not outer.startswith("127."):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((outer, port), timeout=START)


async def test_keys_and_images_work_immediately(shared: Server) -> None:
    async with visit(shared[1]) as page:
        await until_painted(page, b"\x1b]8117;", b"keys", b"Classes")
        await page.send_json(["stdin", "?"])
        await until_painted(page, b"Keys")
        await page.send_json(["ping", 7])
        while (message := await asyncio.wait_for(page.receive(), START)).type is aiohttp.WSMsgType.BINARY:
            pass
        assert message.json() == ["pong", 7]


HUGE = ["resize", {"width": 10**8, "height": 10**8}]
ODD = (
    b"\xff",
    "",
    "[",
    "7",
    "[]",
    "{}",
    '["stdin", 7]',
    '["resize", null]',
    '["resize", {"width": "x"}]',
    "[[]]",
    "[" * 60_000,
)


async def test_no_message_of_a_page_keeps_its_processes_or_prints_anything(server: Server) -> None:
    process, address = server
    for size in (f"width={10**8}&height={10**8}", f"width={'9' * 5000}&height=-1"):
        async with visit(address, size) as page:
            for message in ODD:
                await (page.send_bytes(message) if isinstance(message, bytes) else page.send_str(message))
            await until_painted(page, b"Classes")
            await page.send_json(HUGE)
            await page.send_json(["resize", {"width": 1, "height": -1}])
            await until_painted(page, b"\x1b[")
        await until(lambda: processes.children(process.pid), 0)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=START) == ("", "")
    assert process.returncode == 0


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(number, marks=pytest.mark.nightly) for number in (signal.SIGTERM, signal.SIGINT))],
    ids=["kill", "term", "int"],
)
async def test_visits_end_with_the_server(server: Server, number: int) -> None:
    process, address = server
    async with visit(address) as page:
        await until(lambda: processes.children(process.pid, "frn_tui.engine"), 1)
        below = processes.children(process.pid)
        process.send_signal(number)
        async for _ in page:  # confirm closing, as a browser does
            pass
        await asyncio.to_thread(process.wait, 20)
        await until(lambda: running(below), 0)
    assert process.returncode == (-number if number == signal.SIGKILL else 0)


async def test_hanging_app_is_killed_after_its_page_has_closed(shared: Server) -> None:
    process, address = shared
    async with visit(address) as page:
        await until_painted(page, b"Classes")
        for pid in processes.children(process.pid, "frn_tui.main"):
            os.kill(pid, signal.SIGSTOP)
    await until(lambda: processes.children(process.pid), 0)


def test_missing_extra_gives_a_one_line_error_with_the_install_command() -> None:
    code = "import sys; sys.modules['aiohttp'] = None; sys.argv = ['frn-tui', '--web', '--port', '0']; "
    result = processes.run([sys.executable, "-c", code + "from frn_tui.main import run; run()"])
    assert result.returncode == 1
    assert result.stderr == f"error: --web needs textual-serve, which is not installed: {install_command('web')}\n"


async def test_used_port_gives_a_one_line_error(shared: Server) -> None:
    await get(shared[1])
    port = str(urlsplit(shared[1]).port)
    result = processes.run([sys.executable, "-m", "frn_tui.main", "--web", "--port", port], timeout=START)
    assert result.returncode == 1
    assert result.stderr == f"error: port {port} cannot be used (Address already in use); try --port\n"
