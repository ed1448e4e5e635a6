"""Stages for widgets and for the app, and what is seen on them. The one place that uses Textual's private parts."""

import asyncio
import base64
import gc
import random
import zlib
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import pytest
from frn_tui.app import FrnApp
from frn_tui.client import EngineClient, EngineError
from rich.style import Style
from textual.app import App, ComposeResult
from textual.geometry import Size
from textual.message import Message
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input

Scenario = Callable[[Pilot[None], list[Message]], Awaitable[None]]

Tell = Callable[[dict[str, Any]], None]


class FakeEngine(EngineClient):
    """Photos are files named CLASS-NUMBER.jpg; a photo is answered by its name. Files named bad* are broken."""

    FOLDERS: ClassVar[dict[str, list[str]]] = {
        "/photos": ["jay", "owl", "wren"],
        "/photos/jay": [f"jay-{number}.jpg" for number in range(6)],
        "/photos/owl": [f"owl-{number}.jpg" for number in range(4)],
        "/photos/wren": [*(f"wren-{number}.jpg" for number in range(5)), "bad-1.jpg"],
        "/queries": ["bad-2.jpg", "jay-10.jpg", "owl-10.jpg", "owl-11.jpg", "swan-1.jpg", "wren-10.jpg"],
        "/home": ["birds.frn.json", "features.onnx"],
    }
    """What is on the disk: by folder, what is in it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.known: set[str] = set()
        self.classes: dict[str, Any] = {"classes": [], "threshold": None, "next_id": 1}
        self.pause: asyncio.Event | None = None
        self.content: dict[str, str] = {}
        """Keys of files whose content is not their name."""
        self.left: dict[str, Any] = {}
        """What an app that was killed has left."""
        self.kept: dict[str, Any] | None = None
        """This app's own journal."""
        self.written: dict[str, str] = {}
        self.holders: dict[str, int] = {}
        """Processes of other apps, by the projects that they have open."""
        self.locked: str | None = None
        self.chance: random.Random | None = None
        """Decides how long an answer takes, and whether it is a failure."""

    @property
    def pid(self) -> int | None:
        return None

    async def start(self) -> None:
        self.state = "ready"

    async def close(self) -> None:
        self.state = "closed"

    async def call(self, op: str, on_event: Tell | None = None, **arguments: Any) -> dict[str, Any]:
        self.calls.append(op)
        await asyncio.sleep(0)
        if self.pause is not None:
            await self.pause.wait()
        if self.chance is not None:
            await asyncio.sleep(self.chance.choice([0, 0, 0.001, 0.01]))
            if self.chance.random() < 0.02:
                raise EngineError("the engine stopped (signal 9) reading [bold]x[/] \x1b[31m")
        answer: dict[str, Any] = getattr(self, f"op_{op}")(on_event or (lambda event: None), **arguments)
        return answer

    def op_open_model(self, tell: Tell, model: str) -> dict[str, Any]:
        self.known.clear()
        return {"model": model, "sha256": f"sha of {model}", "side": 84, "grid": [5, 5], "d": 64, "device": "cpu"}

    def op_list(self, tell: Tell, path: str) -> dict[str, Any]:
        folder = path.rstrip("/") or "/"
        folder = "/photos" if folder == "." else folder
        if folder == "/":
            names = [name.strip("/") for name in self.FOLDERS if name.count("/") == 1]
        elif folder in self.FOLDERS:
            names = self.FOLDERS[folder]
        else:
            raise EngineError(f"{folder}: cannot be listed (No such file or directory)")
        kinds = {"jpg": "image", "json": "project", "onnx": "model"}
        entries = [{"name": name, "kind": kinds.get(name.rpartition(".")[2], "folder")} for name in names]
        return {"path": folder, "parent": folder.rpartition("/")[0] or "/", "entries": entries}

    def op_scan(self, tell: Tell, path: str, recursive: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": "nothing", "files": [], "classes": {}}
        members = [f"{path}/{name}" for name in self.FOLDERS.get(path, ())]
        classes = {member.rpartition("/")[2]: member for member in members if member in self.FOLDERS}
        if path.endswith(".frn.json"):
            return {**found, "kind": "project", "files": [path]}
        if path.endswith(".jpg"):
            return {**found, "kind": "image", "files": [path]}
        if classes:
            photos = {name: [f"{folder}/{file}" for file in self.FOLDERS[folder]] for name, folder in classes.items()}
            return {**found, "kind": "classes", "classes": photos}
        if any(member.endswith(".jpg") for member in members):
            return {**found, "kind": "folder", "files": [member for member in members if member.endswith(".jpg")]}
        return {**found, "reason": f"{path}: No such file or directory"}

    def op_preview(self, tell: Tell, path: str, width: int, height: int, heat: object) -> dict[str, Any]:
        if Path(path).name.startswith("bad"):
            raise EngineError(f"{path}: is damaged")
        rgb = _four_fields(width, height, zlib.crc32(Path(path).name.encode()), heat is not None)
        return {"width": width, "height": height, "rgb": rgb, "image_width": 640, "image_height": 480}

    def op_embed(self, tell: Tell, paths: list[str]) -> dict[str, Any]:
        for number, path in enumerate(paths, 1):
            if Path(path).name.startswith("bad"):
                tell({"event": "embedded", "path": path, "reason": f"{path}: is damaged"})
            else:
                key = self.content.get(path, Path(path).name)
                self.known.add(key)
                tell({"event": "embedded", "path": path, "key": key, "size": 1, "mtime_ns": 2})
            tell({"event": "progress", "done": number, "total": len(paths)})
        return {"done": len(paths), "broken": 0}

    def op_classes(self, tell: Tell, state: dict[str, Any]) -> dict[str, Any]:
        self.classes = state
        keys = [s["key"] for entry in state["classes"] for s in entry["supports"]]
        reports = [
            {"id": entry["id"], "explained": {s["key"]: 0.5 for s in entry["supports"]}, "rank": {}, "near": {}}
            for entry in state["classes"]
        ]
        threshold = 0.4 if state["threshold"] is None else state["threshold"]
        missing = [key for key in keys if key not in self.known]
        return {"reports": reports, "threshold": threshold, "calibrated": 0.4, "missing": missing}

    def op_query(self, tell: Tell, paths: list[str]) -> dict[str, Any]:
        for number, path in enumerate(paths, 1):
            if Path(path).name.startswith("bad"):
                tell({"event": "answer", "path": path, "reason": f"{path}: is damaged"})
            else:
                tell(self._answer(path, alone=len(paths) == 1))
            tell({"event": "progress", "done": number, "total": len(paths)})
        return {"done": len(paths), "broken": 0}

    def _answer(self, path: str, *, alone: bool) -> dict[str, Any]:
        own = Path(path).name.partition("-")[0]
        scores = [
            {
                "id": entry["id"],
                "probability": 0.9 if entry["name"] == own else 0.1,
                "error": 1.0,
                "explained": 0.45 if entry["name"] == own else 0.35,
            }
            for entry in self.classes["classes"]
            if entry["supports"]
        ]
        if not scores:
            raise EngineError("no class has an example yet")
        scores.sort(key=lambda score: -score["probability"])
        threshold = 0.4 if self.classes["threshold"] is None else self.classes["threshold"]
        answer = {"event": "answer", "path": path, "key": Path(path).name, "size": 1, "mtime_ns": 2}
        answer |= {"scores": scores, "unknown": threshold > scores[0]["explained"]}
        if alone:
            grid = [[(5 * i + j) / 24 for j in range(5)] for i in range(5)]
            answer["maps"] = {str(score["id"]): grid for score in scores}
        return answer

    def op_hide_and_test(self, tell: Tell, shot: int, seed: int) -> dict[str, Any]:
        entries = [entry for entry in self.classes["classes"] if len(entry["supports"]) > shot]
        if len(entries) < 2:
            raise EngineError(f"hide and test needs two classes of more than {shot} examples")
        counts = [[len(a["supports"]) - shot if a is b else 0 for b in entries] for a in entries]
        counts[0][0], counts[0][1] = counts[0][0] - 1, 1
        accuracy = sum(row[i] for i, row in enumerate(counts)) / sum(map(sum, counts))
        return {"ids": [entry["id"] for entry in entries], "counts": counts, "accuracy": accuracy, "wrong": []}

    def op_load(self, tell: Tell, path: str) -> dict[str, Any]:
        supports = [{"path": "/p/jay-1.jpg", "key": "old", "size": 1, "mtime_ns": 1}]
        state = {"classes": [{"id": 4, "name": "jay", "supports": supports}], "threshold": None, "next_id": 5}
        return {"state": state, "model": "conv4", "sha256": "sha of conv4"}

    def op_holder(self, tell: Tell, path: str) -> dict[str, Any]:
        return {"holder": self.holders.get(path)}

    def op_lock(self, tell: Tell, path: str | None) -> dict[str, Any]:
        self.locked = path
        return {}

    def op_save(self, tell: Tell, **arguments: Any) -> dict[str, Any]:
        return {"path": arguments["path"]}

    def op_journal(self, tell: Tell, **arguments: Any) -> dict[str, Any]:
        self.kept = None if arguments["saved"] else arguments
        return {}

    def op_recover(self, tell: Tell, *, discard: bool = False, own: bool = False) -> dict[str, Any]:
        if discard and own:
            self.kept = None
        elif discard:
            self.left = {}
        return {} if discard else self.left

    def op_export(self, tell: Tell, path: str, what: str, replace: bool = False) -> dict[str, Any]:
        return {"path": path, "bytes": 1}

    def op_write(self, tell: Tell, path: str, text: str, replace: bool) -> dict[str, Any]:
        self.written[path] = text
        return {"path": path, "bytes": len(text)}


@cache
def _four_fields(width: int, height: int, seed: int, heat: bool) -> str:
    """A picture of four plain colours, as the engine sends it."""
    colours = [bytes(seed >> shift & 255 for shift in (start, start + 4, start + 8)) for start in (0, 5, 10, 15)]
    if heat:
        colours.reverse()
    rows = [
        colours[row] * (width // 2) + colours[row + 1] * (width - width // 2)
        for row in [0] * (height // 2) + [2] * (height - height // 2)
    ]
    return base64.b64encode(b"".join(rows)).decode("ascii")


@pytest.fixture(scope="session", autouse=True)
def looked_at_often() -> Iterator[None]:
    """A pilot waits until the app has done nothing for a while; a while of 20 ms would be half of these tests' time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("textual._wait.SLEEP_GRANULARITY", 0.004)
        patch.setattr("textual._wait.SLEEP_IDLE", 0.0004)
        patch.setattr("textual.screen.UPDATE_PERIOD", 0.002)
        yield


@pytest.fixture(scope="session", autouse=True)
def imported() -> Iterator[None]:
    """What is imported (torch, for other tests) is not looked through again whenever an app collects garbage."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def resized(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine Textual's pilot goes on before the new size is laid out, or before the widgets know of it."""
    resize = Pilot.resize_terminal

    async def patiently(pilot: Pilot[None], width: int, height: int) -> None:
        await resize(pilot, width, height)
        for _ in range(100):
            if pilot.app.screen._compositor.size == Size(width, height):
                break
            await pilot.pause(0.02)
        await pilot._wait_for_screen()
        await pilot.pause()

    monkeypatch.setattr(Pilot, "resize_terminal", patiently)


@pytest.fixture
def fake_engine() -> FakeEngine:
    """An engine without a process."""
    return FakeEngine()


@pytest.fixture
def private_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees the user's settings and journals."""
    monkeypatch.setenv("FRN_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


class Driver:
    """Waits for the app instead of sleeping."""

    def __init__(self, app: FrnApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def until(self, reached: Callable[[], object], seconds: float = 20) -> None:
        for _ in range(int(seconds / 0.02)):
            await self.pilot.pause(0.02)
            if reached():
                return
        raise AssertionError("it did not happen in time")

    async def idle(self) -> None:
        """Until no work is under way."""
        await self.pilot.pause()
        await self.until(lambda: not any(worker.is_running for worker in self.app.workspace.workers))
        await self.pilot.pause()

    async def keys(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.idle()

    async def type(self, text: str) -> None:
        field = self.app.screen.query_one(Input)
        field.focus()
        field.value = text
        await self.pilot.pause()
        await self.keys("enter")

    @property
    def counts(self) -> dict[str, int]:
        return {entry.name: len(entry.supports) for entry in self.app.controller.session.state.classes}


@pytest.fixture
def driver() -> type[Driver]:
    """The class, for tests with an app of their own."""
    return Driver


Drive = Callable[..., None]


@pytest.fixture
def drive(fake_engine: FakeEngine, private_state: Path) -> Drive:
    """Run a scenario on the app with an engine without a process, opened on `/photos`."""

    def drive(
        scenario: Callable[[Driver], Awaitable[None]],
        *,
        place: str = "/photos",
        size: tuple[int, int] = (140, 40),
        images: Any = "half",
        app: Callable[..., FrnApp] = FrnApp,
    ) -> None:
        async def run() -> None:
            shown = app(place, images=images, engine=fake_engine)
            async with shown.run_test(size=size, tooltips=False) as pilot:
                driver = Driver(shown, pilot)
                await driver.until(lambda: shown.controller.model is not None)
                await driver.pilot.pause()
                if not fake_engine.left:
                    await driver.idle()
                await scenario(driver)

        asyncio.run(run())

    return drive


class Stage(App[None]):
    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget

    def compose(self) -> ComposeResult:
        yield self.widget


@pytest.fixture
def play() -> Callable[..., None]:
    """Run a scenario on an app that holds one widget.

    The scenario gets the pilot, and a list into which the messages of the program's own widgets come.
    """

    def play(widget: Widget, scenario: Scenario, *, size: tuple[int, int] = (80, 24), theme: str | None = None) -> None:
        told: list[Message] = []

        def hear(message: Message) -> None:
            if type(message).__module__.startswith("frn_tui") and not any(message is other for other in told):
                told.append(message)

        async def run() -> None:
            app = Stage(widget)
            if theme is not None:
                app.theme = theme
            async with app.run_test(size=size, message_hook=hear) as pilot:
                await pilot.pause()
                await scenario(pilot, told)

        asyncio.run(run())

    return play


@pytest.fixture
def lines() -> Callable[[App[Any]], list[str]]:
    """The text on the screen, line by line."""
    return lambda app: [strip.text for strip in app.screen._compositor.render_strips()]


@pytest.fixture
def sent() -> Callable[[App[Any]], str]:
    """What a terminal gets to show the screen."""

    def sent(app: App[Any]) -> str:
        parts = []
        for strip in app.screen._compositor.render_strips():
            for text, style, _ in strip:
                if style is not None:
                    style._ansi = None  # of an app with other colours: styles are shared
                    text = style.render(text, color_system=app.console._color_system)
                parts.append(text)
            parts.append("\n")
        return "".join(parts)

    return sent


@pytest.fixture
def styles() -> Callable[[App[Any]], list[list[Style]]]:
    """The style of each cell on the screen."""

    def styles(app: App[Any]) -> list[list[Style]]:
        return [
            [segment.style or Style() for segment in strip for _ in range(segment.cell_length)]
            for strip in app.screen._compositor.render_strips()
        ]

    return styles


@pytest.fixture
def digest(styles: Callable[[App[Any]], list[list[Style]]]) -> Callable[[App[Any]], list[str]]:
    """The styles on the screen as text, line by line: how many cells in a row look how."""

    def digest(app: App[Any]) -> list[str]:
        return [
            ", ".join(f"{len(list(run))} {str(style) or 'plain'}" for style, run in groupby(line))
            for line in styles(app)
        ]

    return digest
