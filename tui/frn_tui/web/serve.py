"""The app in a browser: `frn-tui --web` serves it on this machine only.

Anyone who can reach the page can read and write files as the user can. The server therefore listens on loopback only
and rejects requests from other sites' pages in the same browser.
"""

import asyncio
import inspect
import logging
import os
import shlex
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from frn.errors import FrnError
from frn.system.extras import install_command
from frn_tui.terminal.marks import MARKS
from frn_tui.terminal.pixels import PAGE_COMMAND

HOST = "127.0.0.1"
PORT = 8000


def serve(options: Sequence[str], port: int) -> None:
    """Serve the app with options of `frn-tui` until Ctrl-C or SIGTERM; every visit starts its own app.

    Port 0 selects a free one. Raises FrnError if textual-serve is not installed or the port is taken.
    """
    port = _free(port)
    try:
        import aiohttp_jinja2
        from aiohttp import web
        from textual_serve.server import Server
    except ImportError as error:
        raise FrnError(f"--web needs textual-serve, which is not installed: {install_command('web')}") from error

    class Local(Server):
        """Textual's server, but quiet, closed to other sites, and quick to shut down."""

        def initialize_logging(self) -> None:
            logging.basicConfig(level=logging.WARNING, format="%(message)s")

        async def on_startup(self, app: web.Application) -> None:
            """Print nothing; the address has already been printed."""

        async def handle_index(self, request: web.Request) -> web.Response:
            """Return the app's own page, with support for images and nothing from other sites."""
            context = await inspect.unwrap(Server.handle_index)(self, request)
            return aiohttp_jinja2.render_template(
                "app_index.html", request, {**context, "marks": MARKS, "command": PAGE_COMMAND}
            )

        async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
            if request.headers.get("Origin") not in [f"http://{name}:{port}" for name in (HOST, "localhost")]:
                raise web.HTTPForbidden(text="this address serves only the page of frn-tui")
            return await super().handle_websocket(request)

        async def on_shutdown(self, app: web.Application) -> None:
            """Cancel all visits; otherwise the server would wait a minute for them."""
            for visit in asyncio.all_tasks() - {asyncio.current_task()}:
                visit.cancel()

    os.environ["FRN_PAGE"] = "1"  # inherited by every visit's app
    command = shlex.join([sys.executable, "-P", "-m", "frn_tui.main", *options])
    server = Local(command, host=HOST, port=port, title="frn-tui", templates_path=Path(__file__).with_name("page"))
    print(f"frn-tui: http://{HOST}:{port}   press Ctrl-C to stop", flush=True)
    server.serve()


def _free(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FrnError(f"port {port} cannot be used ({reason}); try --port") from error
        return int(probe.getsockname()[1])
