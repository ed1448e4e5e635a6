"""Answers, log messages and cancellation in the engine process."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from frn_tui.client.client import EngineClient
from frn_tui.client.file_requests import ListFolder
from frn_tui.client.protocol import INTERNAL, EmbedImages, EngineError, RenderPreview

from tests import processes
from tests.tui.client.conftest import MISCHIEF, Message, eventually, kill, play

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


def test_progress_is_ordered_and_queues_run_independently(photos: Callable[..., list[str]]) -> None:
    paths = photos(*(f"slow {i}" for i in range(20)))

    async def scenario(client: EngineClient) -> None:
        events: list[Message] = []
        embedding = asyncio.create_task(client.call(EmbedImages(paths=paths), events.append))
        await eventually(lambda: len(events) > 1)
        preview = await client.call(RenderPreview(path=paths[0], columns=2, rows=1))
        assert preview.columns == 2
        assert not embedding.done()
        await embedding
        assert [event["path"] for event in events if event["event"] == "embedded"] == paths
        assert [event["done"] for event in events if event["event"] == "progress"] == [4, 8, 12, 16, 20]

    play(scenario, program=("-c", MISCHIEF))


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
