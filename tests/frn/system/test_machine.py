"""Processors, optional packages and downloads."""

import hashlib
import os
import shlex
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from frn.errors import FrnError
from frn.system.extras import EXTRAS, install_command
from frn.system.hardware import own_rank, world
from frn.system.transfers import fetch_from_hub
from tests import processes
from tests.commands import frn

ONE_PROCESSOR = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from frn import FewShotClassifier
from tests.drawings import MOTHS
moths = MOTHS
FewShotClassifier().fit({home.name: sorted(home.iterdir()) for home in moths.iterdir() if home.is_dir()})
print(len(os.listdir("/proc/self/task")))
import torch
from frn.system.precision import set_threads
set_threads(None)
print(torch.get_num_threads())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux can say which processors may be used")
def test_a_process_on_one_processor_classifies_and_trains_in_one_thread() -> None:
    chosen = ("_NUM_THREADS", "LOCAL_WORLD_SIZE")
    environment = {name: value for name, value in os.environ.items() if not name.endswith(chosen)}
    result = processes.run([sys.executable, "-c", ONE_PROCESSOR], env=environment)
    assert result.stdout.split() == ["1", "1"], result.stderr


def test_only_torchrun_starts_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some schedulers set these variables as well."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert (world(), own_rank()) == (1, 0)
    for name, value in {"RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)
    assert (world(), own_rank()) == (2, 1)
    monkeypatch.setenv("WORLD_SIZE", "abc")
    with pytest.raises(FrnError, match="WORLD_SIZE is 'abc', but must be a number, as torchrun sets it"):
        world()


ROOT = Path(__file__).parents[3]


def test_extras_need_the_packages_listed_in_pyproject() -> None:
    published = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {name: list(needs) for name, needs in EXTRAS.items()} == {
        name: needs for name, needs in published.items() if name not in ("test", "docs", "dev", "samples")
    }


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_hint_is_a_command_of_the_running_python_that_needs_no_published_package(extra: str) -> None:
    python, *words = shlex.split(install_command(extra))
    assert python == sys.executable
    assert words[:3] == ["-m", "pip", "install"]
    assert not any("frn" in word for word in words)


def test_missing_timm_gives_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("timm", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, name, None)
    for more in ([], ["--weights", __file__]):
        result = frn("models", "add", "timm:vit_tiny_patch16_224", *more)
        assert result.exit_code == 1
        assert (
            result.stderr.splitlines()[-1]
            == f"error: timm: networks need timm, which is not installed: {install_command('timm')}"
        )


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
