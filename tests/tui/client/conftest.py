"""An engine process that reacts to the names of some files."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from frn_tui.client.client import EngineClient
from frn_tui.client.protocol import OpenModel

Message = dict[str, Any]
Scenario = Callable[[EngineClient], Coroutine[Any, Any, None]]


TIMEOUT = 20.0  # seconds that a scenario and its end may take
MISCHIEF = """
import os, sys, time
from pathlib import Path
import frn.images.opening, frn.features.extractor as extractor, frn_tui.engine.pictures.previews as pictures

def mischief(path, read=frn.images.opening.read_file):
    if "poison" in path.name:
        os.kill(os.getpid(), 9)
    while "hang" in path.name:
        path.with_suffix(".begun").touch()
        time.sleep(0.05)
    if "slow" in path.name:
        time.sleep(0.02)
    if "chatty" in path.name:
        print("a library says something")
        os.write(1, b'{"end": "done", "id": 1}\\n')
        os.write(2, b"a warning from C\\n")
    return read(path)

extractor.read_file = pictures.read_file = mischief
from frn_tui.engine.__main__ import main
main()
"""
"""An engine that reacts to the names of files."""


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRN_STATE", str(tmp_path / "state"))


@pytest.fixture
def photos(moths: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Different photos, with bytes that depend on their names."""
    pictures = sorted((moths / "test").rglob("*.png"), key=lambda path: (path.name, path.parent))

    def photos(*names: str) -> list[str]:
        paths = [tmp_path / f"{name}.png" for name in names]
        for path, picture in zip(paths, cycle(pictures)):
            path.write_bytes(picture.read_bytes() + path.name.encode())
        return [*map(str, paths)]

    return photos


def play(scenario: Scenario, *, model: bool = True, **options: Any) -> None:
    """Run a scenario on a client; afterwards no process, descriptor or task remains."""

    async def run() -> None:
        client = EngineClient(**options)
        try:
            await client.start()
            if model:
                await client.call(OpenModel(model="conv4"))
            await asyncio.wait_for(scenario(client), TIMEOUT)
        finally:
            await asyncio.wait_for(client.close(), TIMEOUT)  # `python assets/benchmarks/app.py` measures the time
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others

    before = set(os.listdir("/proc/self/fd"))
    asyncio.run(run())
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    assert not children()


def children() -> list[str]:
    """Return the names of this process's children, including zombies."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text(encoding="latin-1").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid() and is_engine(folder):
                found.append(folder.name)
    return found


def is_engine(folder: Path) -> bool:
    try:
        return b"frn_tui" in (command := (folder / "cmdline").read_bytes()) or not command
    except OSError:
        return False


async def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not come")


def kill(client: EngineClient) -> None:
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
