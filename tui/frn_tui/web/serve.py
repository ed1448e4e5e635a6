"""The app in a browser: `frn-tui --web` serves it on this machine only.

Anyone who can use the page can read and write files as the user can. The server therefore listens on loopback only, its
address contains a secret that changes at every start, and it rejects requests from other sites' pages.
"""

import asyncio
import json
import os
import secrets
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frn.errors import FrnError
from frn.system.extras import install_command
from frn_tui.terminal.marks import MARKS
from frn_tui.terminal.pixels import PAGE_COMMAND

if TYPE_CHECKING:
    from aiohttp.web import Request, Response, WebSocketResponse

HOST = "127.0.0.1"
PORT = 8000
MAX_COLUMNS, MAX_ROWS = 1000, 400  # largest screen of a visit, in characters: 4K with 4 x 5 pixels each
EXIT_TIMEOUT = 5.0  # seconds that a visit's app has to keep unsaved work and exit after its page has closed
READY = b"__GANGLION__\n"
"""The line with which Textual's web driver starts; packets follow: a type, four bytes of length, a payload."""
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "font-src 'self'; connect-src ws://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def serve(options: Sequence[str], port: int) -> None:
    """Serve the app with options of `frn-tui` until Ctrl-C or SIGTERM; every visit starts its own app.

    Port 0 selects a free one. Raises FrnError if textual-serve is not installed or the port is taken.
    """
    port = _free(port)
    library = find_spec("textual_serve")
    try:
        from aiohttp import web
    except ImportError:
        library = None
    if library is None or library.origin is None:
        raise FrnError(f"--web needs textual-serve, which is not installed: {install_command('web')}")
    hosts = [f"{name}:{port}" for name in (HOST, "localhost")]
    token = secrets.token_urlsafe()
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    command = [sys.executable, "-P", "-m", "frn_tui.main", *options]
    visits: set[WebSocketResponse] = set()

    @web.middleware
    async def check(request: "Request", handler: Any) -> Any:
        sent = request.match_info.get("token", token)  # the page's scripts and fonts have none
        if request.host not in hosts or not secrets.compare_digest(sent.encode(), token.encode()):
            raise web.HTTPNotFound(text="Open the address that frn-tui printed when it started.\n")
        return await handler(request)

    async def index(request: "Request") -> "Response":
        nonce = secrets.token_urlsafe()
        values = {"nonce": nonce, "socket": f"ws://{request.host}/{token}/ws"}
        values |= {"marks": json.dumps(MARKS), "command": str(PAGE_COMMAND)}
        page = template
        for name, value in values.items():
            page = page.replace(f"{{{{ {name} }}}}", value)
        policy = POLICY.format(nonce=nonce, host=request.host)
        return web.Response(text=page, content_type="text/html", headers={"Content-Security-Policy": policy})

    async def visit(request: "Request") -> "WebSocketResponse":
        if request.headers.get("Origin") != f"http://{request.host}":
            raise web.HTTPForbidden(text="this address serves only the page of frn-tui")
        page = web.WebSocketResponse(heartbeat=120, timeout=2)  # a busy machine answers a ping after many seconds
        await page.prepare(request)
        visits.add(page)
        try:
            await _run_app(command, request.query, page)
        finally:
            visits.discard(page)
        return page

    async def add_headers(request: "Request", response: Any) -> None:
        response.headers.update(HEADERS)

    async def close_visits(_: web.Application) -> None:
        await asyncio.gather(*(page.close() for page in visits))

    app = web.Application(middlewares=[check])
    static = Path(library.origin).with_name("static")
    app.add_routes([web.get("/{token}/", index), web.get("/{token}/ws", visit), web.static("/static", static)])
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(close_visits)
    print(f"frn-tui: http://{HOST}:{port}/{token}/   press Ctrl-C to stop", flush=True)
    web.run_app(app, host=HOST, port=port, print=None, access_log=None, shutdown_timeout=EXIT_TIMEOUT + 1)


async def _run_app(command: Sequence[str], size: Any, page: "WebSocketResponse") -> None:
    """Run an app for a page until either ends; then end the app."""
    columns, rows = _size(size.get("width", 80), size.get("height", 24))
    environment = {
        **os.environ,
        "FRN_PAGE": "1",
        "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver",
        "TEXTUAL_FPS": "60",
        "TEXTUAL_COLOR_SYSTEM": "truecolor",
        "TERM_PROGRAM": "textual",
        "COLUMNS": str(columns),
        "ROWS": str(rows),
    }
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
    )
    output = asyncio.create_task(_show_output(process, page))
    try:
        async for message in page:
            await _pass_on(message.data, process, page)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), EXIT_TIMEOUT)
        except TimeoutError:
            process.kill()
        await output


async def _show_output(process: Process, page: "WebSocketResponse") -> None:
    """Send what the app writes to the page; read on if the page is gone, because a full pipe would block the app."""
    assert process.stdout is not None
    with suppress(asyncio.IncompleteReadError):
        await process.stdout.readuntil(READY)
        while True:
            header = await process.stdout.readexactly(5)
            payload = await process.stdout.readexactly(int.from_bytes(header[1:], "big"))
            if header[:1] == b"D" and not page.closed:
                with suppress(ConnectionError):
                    await page.send_bytes(payload)
    await page.close()


async def _pass_on(message: Any, process: Process, page: "WebSocketResponse") -> None:
    """Pass a message of the page's script on to the app; ignore everything else."""
    kind, value = None, None
    with suppress(ValueError, TypeError, RecursionError):
        kind, value = (*json.loads(message), None)[:2]
    if kind == "ping":
        await page.send_json(["pong", value])
    elif kind == "stdin" and isinstance(value, str):
        await _write(process, b"D", value.encode(errors="replace"))
    elif kind == "resize" and isinstance(value, dict):
        columns, rows = _size(value.get("width"), value.get("height"))
        await _write(process, b"M", json.dumps({"type": kind, "width": columns, "height": rows}).encode())
    elif kind in ("focus", "blur"):
        await _write(process, b"M", json.dumps({"type": kind}).encode())


async def _write(process: Process, kind: bytes, payload: bytes) -> None:
    assert process.stdin is not None
    with suppress(ConnectionError):
        process.stdin.write(kind + len(payload).to_bytes(4, "big") + payload)
        await process.stdin.drain()


def _size(columns: object, rows: object) -> tuple[int, int]:
    """Return a screen size within the limits; what is not a short number counts as 80 or 24."""
    limits = ((str(columns), 80, MAX_COLUMNS), (str(rows), 24, MAX_ROWS))
    width, height = (
        min(max(int(size), 1), limit) if size.isdecimal() and len(size) < 20 else usual for size, usual, limit in limits
    )
    return width, height


def _free(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FrnError(f"port {port} cannot be used ({reason}); try --port") from error
        return int(probe.getsockname()[1])
