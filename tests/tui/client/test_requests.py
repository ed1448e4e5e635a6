"""Requests to the engine process, which survives cancellation and is replaced after a crash."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from frn_tui.client.client import EngineClient
from frn_tui.client.file_requests import ListFolder, ScanPath
from frn_tui.client.protocol import INTERNAL, AskClasses, EmbedImages, EngineError, RenderPreview, SetClasses

from frn.projects.session import State
from frn.system.processes.messages import convert
from tests import processes
from tests.tui.client.conftest import MISCHIEF, Message, children, eventually, kill, play

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at processes through /proc")


def test_a_request_refuses_fields_that_are_missing_or_not_its_own() -> None:
    with pytest.raises(TypeError, match="ListFolder needs "):
        ListFolder()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="ListFolder has no speed"):
        ListFolder("photos", speed=2)  # type: ignore[call-arg]


def test_engine_ends_with_its_input_and_does_not_import_torch(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "frn_tui.engine", "--log", str(tmp_path / "log")]
    early = tmp_path / "early"  # imports before the log is opened
    with (
        early.open("w") as standard_error,
        processes.started(command, stdin=-1, stdout=-1, stderr=standard_error) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'garbage\n{"id": 1, "op": "open_model", "model": "conv4"}\n')
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(30) == 0
    assert (answer["id"], answer["end"]) == (1, "done")
    log = (tmp_path / "log").read_text()
    imports = early.read_text() + log
    assert "numpy" in imports
    assert "torch" not in imports
    assert "ignored: not JSON" in log


def test_engine_threads_have_lower_priority_than_the_app(photos: Callable[..., list[str]]) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)

    async def scenario(client: EngineClient) -> None:
        await client.call(EmbedImages(paths=photos("moth")))
        process = Path(f"/proc/{client.pid}")
        threads = [int(thread.name) for thread in (process / "task").iterdir()]
        assert len(threads) > 1
        assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {min(own + 7, 19)}

    play(scenario)


def test_a_bug_in_the_engine_logs_a_traceback_and_the_message_says_where(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    program = "import frn_tui.engine.files.scan as m; del m.os; from frn_tui.engine.__main__ import main; main()"

    async def scenario(client: EngineClient) -> None:
        with pytest.raises(EngineError, match=rf"^internal error: NameError: .*; see {log}$") as caught:
            await client.call(ListFolder(path="/"))
        assert caught.value.code == INTERNAL
        kill(client)
        with pytest.raises(EngineError, match=rf"^the engine stopped \(signal 9\); see {log}$"):
            await client.call(ListFolder(path="/"))

    play(scenario, model=False, program=("-c", program), log=log)
    assert "Traceback" in log.read_text()


def test_cancelled_request_stops_without_killing_the_engine(photos: Callable[..., list[str]]) -> None:
    paths = photos(*(f"slow {i}" for i in range(100)))

    async def scenario(client: EngineClient) -> None:
        events: list[Message] = []
        running, waiting = (asyncio.create_task(client.call(EmbedImages(paths=paths), events.append)) for _ in range(2))
        await eventually(lambda: len(events) > 4)
        before, pid = time.monotonic(), client.pid
        for task in (waiting, running):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert time.monotonic() - before < 5  # `python assets/benchmarks/app.py` measures 0.25 s
        seen = len(events)
        await client.call(EmbedImages(paths=paths[:1]))
        assert time.monotonic() - before < 10
        assert (len(events), client.pid) == (seen, pid)

    play(scenario, program=("-c", MISCHIEF))


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
