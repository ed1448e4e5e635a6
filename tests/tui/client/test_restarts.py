"""The client survives a crash of its engine."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from frn_tui.client.client import EngineClient
from frn_tui.client.file_requests import ScanPath
from frn_tui.client.protocol import AskClasses, EmbedImages, EngineError, RenderPreview, SetClasses

from frn.projects.session import State
from frn.system.processes.messages import convert
from tests import processes
from tests.tui.client.conftest import MISCHIEF, Message, children, eventually, kill, play

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at processes through /proc")


def test_a_request_that_does_not_stop_is_killed_and_waiting_ones_fail(photos: Callable[..., list[str]]) -> None:
    (hang,) = photos("hang")

    async def scenario(client: EngineClient) -> None:
        restarts: list[int | None] = []
        client.on_restart = lambda: restarts.append(client.pid)
        pid = client.pid
        stuck = asyncio.create_task(client.call(RenderPreview(path=hang, columns=2, rows=2)))
        behind = asyncio.create_task(client.call(RenderPreview(path=hang, columns=3, rows=3)))
        await eventually(Path(hang).with_suffix(".begun").exists)  # before that, the request would only leave the queue
        stuck.cancel()
        with pytest.raises(EngineError, match="the engine stopped"):
            await behind
        await client.call(EmbedImages(paths=photos("fine")))
        assert restarts == [client.pid]
        assert client.pid != pid

    play(scenario, program=("-c", MISCHIEF), cancel_timeout=0.1)


def test_classes_waiting_behind_a_stuck_request_are_sent_to_the_next_engine(photos: Callable[..., list[str]]) -> None:
    (hang,) = photos("hang")

    async def scenario(client: EngineClient) -> None:
        pid = client.pid
        stuck = asyncio.create_task(client.call(EmbedImages(paths=[hang])))
        telling = asyncio.create_task(client.call(SetClasses(State())))
        await eventually(Path(hang).with_suffix(".begun").exists)
        stuck.cancel()
        assert (await telling)["reports"] == []
        assert client.pid != pid

    play(scenario, program=("-c", MISCHIEF), cancel_timeout=0.1)


def test_a_killed_engine_is_replaced_with_its_model_and_classes(photos: Callable[..., list[str]]) -> None:
    a, b, c = photos("a", "b", "hang")

    async def scenario(client: EngineClient) -> None:
        events: list[Message] = []
        await client.call(EmbedImages(paths=[a, b]), events.append)
        supports = [{**e, "event": ""} for e in events if e["event"] == "embedded"]
        entries: Any = [{"id": i, "name": f"{i}", "supports": [support]} for i, support in enumerate(supports)]
        await client.call(SetClasses(convert({"classes": entries}, State)))
        told: list[str] = []

        client.on_restart = lambda: told.append("restarted")
        waiting = asyncio.create_task(client.call(RenderPreview(path=c, columns=2, rows=2)))
        await client.call(EmbedImages(paths=[]))
        kill(client)
        with pytest.raises(EngineError, match="signal 9"):
            await waiting
        answers: list[Message] = []
        await client.call(AskClasses(paths=[a]), answers.append)
        assert {score["id"] for score in answers[0]["scores"]} == {0, 1}
        await eventually(lambda: bool(told))
        assert told == ["restarted"]

    play(scenario, program=("-c", MISCHIEF))


def test_cancelled_start_is_repeated_by_the_next_call(photos: Callable[..., list[str]]) -> None:
    async def scenario(client: EngineClient) -> None:
        kill(client)
        while client.state != "dead":
            await asyncio.sleep(0.01)
        call = asyncio.create_task(client.call(ScanPath(path="/")))
        await asyncio.sleep(0)
        assert client.state == "starting"
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await client.call(ScanPath(path=photos("a")[0])))["kind"] == "image"

    play(scenario, model=False)


def test_engine_start_failure_is_reported() -> None:
    async def run() -> None:
        for program in (("-c", "pass"), ("-c", "print('[]')")):
            client = EngineClient(program=program)
            with pytest.raises(EngineError, match="is not started"):
                await client.call(ScanPath(path="/"))
            await client.start()
            with pytest.raises(EngineError, match="the engine stopped"):
                await client.call(ScanPath(path="/"))
            while client.state != "dead":
                await asyncio.sleep(0.01)
            await client.close()
            with pytest.raises(EngineError, match="is closed"):
                await client.start()
        missing = EngineClient()
        missing.command = ["/away"]
        with pytest.raises(EngineError, match=r"cannot be started \(No such file"):
            await missing.start()

    asyncio.run(run())
    assert not children()


@pytest.mark.parametrize("moment", ["while it starts", "while it works", "while it is started again"])
def test_closing_is_quick_at_any_moment(photos: Callable[..., list[str]], moment: str) -> None:
    (hang,) = photos("hang")

    async def run() -> None:
        client = EngineClient(program=("-c", MISCHIEF))
        start = asyncio.create_task(client.start())
        calls: list[Awaitable[object]] = []
        if moment == "while it starts":
            await eventually(lambda: client.pid is not None)
        else:
            await start
            call = client.call(RenderPreview(path=hang, columns=2, rows=2))
            calls = [asyncio.create_task(call)]
            await asyncio.sleep(0.05)
        if moment == "while it is started again":
            kill(client)
            await eventually(lambda: client.state == "dead")
            calls.append(asyncio.create_task(client.call(ScanPath(path="/"))))
            await asyncio.sleep(0)
            assert client.state == "starting"
        began = time.monotonic()
        await client.close()
        assert time.monotonic() - began < 10  # immediately on an idle machine
        await asyncio.gather(start, *calls, return_exceptions=True)
        assert client.state == "closed"
        with pytest.raises(EngineError, match="is closed"):
            await client.call(ScanPath(path="/"))

    asyncio.run(run())
    assert not children()


def test_no_engine_outlives_its_app(tmp_path: Path) -> None:
    app = (
        "import asyncio\n"
        "from frn_tui.client.client import EngineClient\n"
        "async def main():\n"
        "    client = EngineClient()\n"
        "    await client.start()\n"
        "    print(client.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with processes.started([sys.executable, "-c", app], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        process.kill()
        process.wait()
        asyncio.run(eventually(lambda: not processes.lives(pid)))
