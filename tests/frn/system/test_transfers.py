"""Downloads from a hub, with a local server."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from frn.errors import FrnError
from frn.system.transfers import fetch_from_hub

pytest.importorskip("huggingface_hub", reason="needs huggingface_hub: pip install '.[timm]'")

CONTENT = b"weights" * 20_000


class Hub(BaseHTTPRequestHandler):
    """A repository with one file."""

    kind: str

    def do_HEAD(self) -> None:
        """Describe the files."""
        self.send_response(200)
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("ETag", f'"{hashlib.sha256(CONTENT).hexdigest()}"')
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()

    def do_GET(self) -> None:
        """Send the file, or only half of it."""
        self.do_HEAD()
        self.wfile.write(CONTENT[: len(CONTENT) // (2 if self.kind == "cut" else 1)])

    def log_message(self, *_: object) -> None:
        """Log nothing."""


Served = Callable[[str], Path]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Start a hub of the given kind, and return the repository's folder in the hub's cache."""
    servers: list[ThreadingHTTPServer] = []

    def started(kind: str) -> Path:
        handler = type("Served", (Hub,), {"kind": kind})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub" / "hub"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        return tmp_path / "hub" / "hub" / "models--x--y"

    yield started
    for server in servers:
        server.shutdown()
        server.server_close()


def test_hub_file_is_downloaded_once(hub: Served) -> None:
    folder = hub("good")
    place = fetch_from_hub("x/y", "model.safetensors")
    assert place.read_bytes() == CONTENT
    assert place.is_relative_to(folder)


def test_truncated_hub_file_is_refused_with_a_one_line_error(hub: Served) -> None:
    folder = hub("cut")
    with pytest.raises(FrnError) as caught:
        fetch_from_hub("x/y", "model.safetensors")
    assert len(str(caught.value).splitlines()) == 1
    assert not list(folder.glob("snapshots/*/model.safetensors"))
