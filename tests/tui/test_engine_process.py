"""The engine as a process, and the client that outlives it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from frn_tui.client import EngineClient, EngineError
from frn_tui.engine.pipes import MAX_LOG
from frn_tui.protocol import (
    INTERNAL,
    PROTOCOL_VERSION,
    AskClasses,
    EmbedImages,
    ListFolder,
    OpenModel,
    RenderPreview,
    ScanPath,
    SetClasses,
)

Message = dict[str, Any]
Scenario = Callable[[EngineClient], Coroutine[Any, Any, None]]

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at processes through /proc")

PATIENCE = 20.0
"""Seconds after which a scenario, or closing, hangs."""
MISCHIEF = """
import os, sys, time
from pathlib import Path
import frn.images, frn.inference.extractor as extractor, frn_tui.engine.previews as pictures

def mischief(path, read=frn.images.read_file):
    if "poison" in path.name:
        os.kill(os.getpid(), 9)
    while "hang" in path.name:
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
"""An engine to which files do something by their names."""


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRN_STATE", str(tmp_path / "state"))


@pytest.fixture
def photos(moths: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Copies of a photo under other names."""
    data = (moths / "test" / "moth 40" / "00.png").read_bytes()

    def photos(*names: str) -> list[str]:
        paths = [tmp_path / f"{name}.png" for name in names]
        for path in paths:
            path.write_bytes(data + path.name.encode())  # another content, the same picture
        return [*map(str, paths)]

    return photos


def play(scenario: Scenario, *, model: bool = True, **options: Any) -> None:
    """Run a scenario on a client; afterwards no process, no descriptor and no task is left."""

    async def run() -> None:
        client = EngineClient(**options)
        try:
            await client.start()
            if model:
                await client.call(OpenModel(model="conv4"))
            await asyncio.wait_for(scenario(client), PATIENCE)
        finally:
            await asyncio.wait_for(client.close(), PATIENCE)
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others

    before = set(os.listdir("/proc/self/fd"))
    asyncio.run(run())
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    assert not children()


def children() -> list[str]:
    """Names of the children of this process, zombies too."""
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


def test_hello_comes_before_anything_heavy_and_the_end_with_the_input(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "frn_tui.engine", "--log", str(tmp_path / "log")]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        hello = json.loads(process.stdout.readline())
        process.stdin.write(b'garbage\n{"id": 1, "op": "open_model", "model": "conv4"}\n')
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        while answer.get("event") == "alive":  # on a busy machine a model takes longer than a second
            answer = json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(5) == 0
        before = process.stderr.read().decode()
    assert hello == {"event": "hello", "protocol": PROTOCOL_VERSION, "pid": process.pid}
    assert (answer["id"], answer["end"]) == (1, "done")
    assert not any(f"| {name}\n" in before.replace("  ", "") for name in ("numpy", "PIL.Image", "onnxruntime"))
    log = (tmp_path / "log").read_text()
    assert "numpy" in log
    assert "torch" not in log
    assert "ignored: no JSON" in log


def test_progress_comes_in_order_and_lanes_do_not_wait_for_each_other(photos: Callable[..., list[str]]) -> None:
    paths = photos(*(f"slow {i}" for i in range(20)))

    async def scenario(client: EngineClient) -> None:
        events: list[Message] = []
        embedding = asyncio.create_task(client.call(EmbedImages(paths=paths), events.append))
        await eventually(lambda: len(events) > 1)
        preview = await client.call(RenderPreview(path=paths[0], width=2, height=2, heat=None))
        assert preview["width"] == 2
        assert not embedding.done()
        assert (await embedding)["done"] == 20
        assert [event["path"] for event in events if event["event"] == "embedded"] == paths
        assert [event["done"] for event in events if event["event"] == "progress"] == [4, 8, 12, 16, 20]

    play(scenario, program=("-c", MISCHIEF))


def test_a_failure_is_an_error_with_its_reason(tmp_path: Path) -> None:
    async def scenario(client: EngineClient) -> None:
        with pytest.raises(EngineError, match="cannot be listed"):
            await client.call(ListFolder(path=str(tmp_path / "away")))

        def broken(event: Message) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):  # the caller's own mistake
            await client.call(EmbedImages(paths=[str(tmp_path / "away")]), broken)

    play(scenario)


def test_what_libraries_print_goes_to_the_log(photos: Callable[..., list[str]], tmp_path: Path) -> None:
    log = tmp_path / "deep" / "engine.log"

    async def scenario(client: EngineClient) -> None:
        assert (await client.call(EmbedImages(paths=photos("chatty"))))["done"] == 1

    play(scenario, program=("-c", MISCHIEF), log=log)
    assert "a warning from C" in log.read_text()


def test_a_bug_in_the_engine_leaves_a_traceback_and_the_message_says_where(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    program = "import frn_tui.engine.listing as m; del m.os; from frn_tui.engine.__main__ import main; main()"

    async def scenario(client: EngineClient) -> None:
        with pytest.raises(EngineError, match=rf"^internal error: NameError: .*; more in {log}$") as caught:
            await client.call(ListFolder(path="/"))
        assert caught.value.code == INTERNAL
        kill(client)
        with pytest.raises(EngineError, match=rf"^the engine stopped \(signal 9\); more in {log}$"):
            await client.call(ListFolder(path="/"))

    play(scenario, model=False, program=("-c", program), log=log)
    assert "Traceback" in log.read_text()


def test_a_log_is_begun_anew_when_it_is_long(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    for size, kept in ((MAX_LOG, True), (MAX_LOG + 1, False)):
        log.write_bytes(b"x" * size)

        async def scenario(client: EngineClient) -> None:
            await client.call(ListFolder(path="/"))

        play(scenario, model=False, log=log)
        assert (log.stat().st_size >= size) == kept


def cancel(paths: list[str]) -> tuple[float, float]:
    """Seconds until a cancelled request has ended, and until the next one is answered."""
    took = []

    async def scenario(client: EngineClient) -> None:
        events: list[Message] = []
        running, waiting = (asyncio.create_task(client.call(EmbedImages(paths=paths), events.append)) for _ in range(2))
        await eventually(lambda: len(events) > 4)
        before, pid = time.monotonic(), client.pid
        for task in (waiting, running):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        took.append(time.monotonic() - before)
        seen = len(events)
        assert (await client.call(EmbedImages(paths=paths[:1])))["done"] == 1
        took.append(time.monotonic() - before)
        assert (len(events), client.pid) == (seen, pid)

    play(scenario, program=("-c", MISCHIEF))
    ended, answered = took
    return ended, answered


def test_a_cancelled_request_stops_softly(photos: Callable[..., list[str]]) -> None:
    cancel(photos(*(f"slow {i}" for i in range(100))))


@pytest.mark.slow
def test_a_cancelled_request_stops_at_once(photos: Callable[..., list[str]]) -> None:
    ended, answered = cancel(photos(*(f"slow {i}" for i in range(100))))
    assert ended < 1  # 0.25 is measured by `frn bench tui`
    assert answered < 3


def test_a_request_that_does_not_stop_is_killed_and_others_fail(photos: Callable[..., list[str]]) -> None:
    (hang,) = photos("hang")

    async def scenario(client: EngineClient) -> None:
        restarts: list[int | None] = []
        client.on_restart = lambda: restarts.append(client.pid)
        pid = client.pid
        stuck = asyncio.create_task(client.call(RenderPreview(path=hang, width=2, height=2, heat=None)))
        behind = asyncio.create_task(client.call(RenderPreview(path=hang, width=3, height=3, heat=None)))
        await client.call(EmbedImages(paths=[]))
        stuck.cancel()
        with pytest.raises(EngineError, match="the engine stopped"):
            await behind
        assert (await client.call(EmbedImages(paths=photos("fine"))))["done"] == 1
        assert restarts == [client.pid]
        assert client.pid != pid

    play(scenario, program=("-c", MISCHIEF), cancel_timeout=0.1)


def test_a_killed_engine_is_replaced_with_its_model_and_classes(photos: Callable[..., list[str]]) -> None:
    a, b, c = photos("a", "b", "hang")

    async def scenario(client: EngineClient) -> None:
        events: list[Message] = []
        await client.call(EmbedImages(paths=[a, b]), events.append)
        supports = [{**e, "event": ""} for e in events if e["event"] == "embedded"]
        entries: Any = [{"id": i, "name": f"{i}", "supports": [support]} for i, support in enumerate(supports)]
        await client.call(SetClasses(state={"classes": entries, "threshold": None, "next_id": 5}))
        told: list[str] = []

        async def restarted() -> None:
            told.append((await client.call(ScanPath(path=a)))["kind"])

        client.on_restart = restarted
        waiting = asyncio.create_task(client.call(RenderPreview(path=c, width=2, height=2, heat=None)))
        await client.call(EmbedImages(paths=[]))
        kill(client)
        with pytest.raises(EngineError, match="signal 9"):
            await waiting
        answers: list[Message] = []
        await client.call(AskClasses(paths=[a]), answers.append)
        assert answers[0]["scores"][0]["id"] == 0
        await eventually(lambda: bool(told))
        assert told == ["image"]

    play(scenario, program=("-c", MISCHIEF))


def test_a_file_that_kills_the_engine_is_left_out_and_the_rest_goes_on(photos: Callable[..., list[str]]) -> None:
    paths = photos(*"abcdef", "poison", *"ghi")

    async def scenario(client: EngineClient) -> None:
        events: list[Message] = []
        end = await client.call(EmbedImages(paths=paths), events.append)
        assert end == {"done": 9, "broken": 1}
        told = [event for event in events if event["event"] == "embedded"]
        assert [event["path"] for event in told] == paths
        assert [event["path"] for event in told if "reason" in event] == [paths[6]]
        assert "stopped the engine" in told[6]["reason"]
        progress = [event["done"] for event in events if event["event"] == "progress"]
        assert progress == sorted(progress)
        assert progress[-1] == 10

    play(scenario, program=("-c", MISCHIEF))


def test_an_engine_that_dies_again_and_again_stays_dead_until_it_is_started(photos: Callable[..., list[str]]) -> None:
    (poison,) = photos("poison")

    async def scenario(client: EngineClient) -> None:
        for _ in range(3):
            with pytest.raises(EngineError, match="signal 9"):
                await client.call(RenderPreview(path=poison, width=2, height=2, heat=None))
        for _ in range(2):
            with pytest.raises(EngineError, match="is dead"):
                await client.call(ScanPath(path=poison))
        assert client.state == "dead"
        await client.start()
        assert (await client.call(ScanPath(path=poison)))["kind"] == "image"

    play(scenario, model=False, program=("-c", MISCHIEF))


def test_silence_is_told_once(photos: Callable[..., list[str]]) -> None:
    (hang,) = photos("hang")

    async def scenario(client: EngineClient) -> None:
        told: list[str] = []
        client.on_silence = lambda: told.append("silent")
        assert client.pid is not None
        os.kill(client.pid, signal.SIGSTOP)
        waiting = asyncio.create_task(client.call(ScanPath(path=hang)))
        await eventually(lambda: bool(told))
        await asyncio.sleep(0.15)
        assert told == ["silent"]
        os.kill(client.pid, signal.SIGCONT)
        assert (await waiting)["kind"] == "image"
        stuck = asyncio.create_task(client.call(RenderPreview(path=hang, width=2, height=2, heat=None)))
        await eventually(lambda: len(told) == 2)  # it lives, but the file does not come
        stuck.cancel()

    play(scenario, model=False, program=("-c", MISCHIEF), silence_timeout=0.3, cancel_timeout=0.1)


def test_an_engine_that_cannot_start_is_an_error() -> None:
    async def run() -> None:
        for program, message in (
            (("-c", "pass"), "does not start"),
            (("-c", "print('[]')"), "does not start"),
            (("-c", """print('{"event": "hello", "protocol": 99}')"""), "protocol 99"),
        ):
            client = EngineClient(program=program)
            with pytest.raises(EngineError, match="was not started"):
                await client.call(ScanPath(path="/"))
            with pytest.raises(EngineError, match=message):
                await client.start()
            with pytest.raises(EngineError, match="is dead"):
                await client.call(ScanPath(path="/"))
            await client.close()
            with pytest.raises(EngineError, match="was closed"):
                await client.start()

    asyncio.run(run())
    assert not children()


def close(hang: str, moment: str) -> float:
    """Seconds that closing takes while the engine is asked to read a file that never ends."""

    async def run() -> float:
        client = EngineClient(program=("-c", MISCHIEF))
        start = asyncio.create_task(client.start())
        calls: list[Awaitable[object]] = []
        if moment == "before the hello":
            await eventually(lambda: client.pid is not None)
        else:
            await start
            call = client.call(RenderPreview(path=hang, width=2, height=2, heat=None))
            calls = [asyncio.create_task(call)]
            await asyncio.sleep(0.05)
        if moment == "while it is started again":
            kill(client)
            await eventually(lambda: client.state == "starting")
        began = time.monotonic()
        await asyncio.wait_for(client.close(), PATIENCE)
        took = time.monotonic() - began
        await asyncio.gather(start, *calls, return_exceptions=True)
        assert client.state == "closed"
        with pytest.raises(EngineError, match="was closed"):
            await client.call(ScanPath(path="/"))
        return took

    took = asyncio.run(run())
    assert not children()
    return took


at_any_moment = pytest.mark.parametrize("moment", ["before the hello", "while it works", "while it is started again"])


@at_any_moment
def test_closing_works_at_any_moment(photos: Callable[..., list[str]], moment: str) -> None:
    close(photos("hang")[0], moment)


@pytest.mark.slow
@at_any_moment
def test_closing_is_quick_at_any_moment(photos: Callable[..., list[str]], moment: str) -> None:
    assert close(photos("hang")[0], moment) < 1.5


def test_no_engine_outlives_its_app(tmp_path: Path) -> None:
    app = (
        "import asyncio\n"
        "from frn_tui.client import EngineClient\n"
        "async def main():\n"
        "    client = EngineClient()\n"
        "    await client.start()\n"
        "    print(client.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", app], stdout=-1) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        process.kill()
        process.wait()
    asyncio.run(eventually(lambda: not _runs(pid)))


def _runs(pid: int) -> bool:
    """Whether a process is there and no zombie that its new parent has yet to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
