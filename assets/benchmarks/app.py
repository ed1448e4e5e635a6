"""Measure the terminal app by driving it as a user would, on a separate terminal.

Every run has its own state folder, so the app finds no unsaved work to recover. All runs share one feature cache, as a
user's runs do.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Annotated, Literal

import bench
import typer
from bench import AsJson, run
from bench.folders import SHOT, WAY, Photos, draw
from bench.terminal import PICTURES, Terminal, alive, resident
from frn_tui.client.client import EngineClient
from frn_tui.client.protocol import EmbedImages, OpenModel, RenderPreview, SetClasses
from frn_tui.terminal.modes import PIXELS, Mode

from frn.cli.shell.console import print_json, print_table, progress_bar, stdout, user_errors
from frn.models.zoo import DEFAULT_MODEL
from frn.projects.session import State

APP = (sys.executable, "-m", "frn_tui.main")
HELLO, STAGE = ((sys.executable, str(Path(bench.__file__).with_name(name))) for name in ("hello.py", "stage.py"))
HEAVY = ("torch", "numpy", "onnxruntime", "PIL", "typer")
MISLEADING = ("NO_COLOR", "TEXTUAL_DRIVER", "COLUMNS", "LINES", "PYTHONDONTWRITEBYTECODE")
"""Environment variables that the pseudo-terminal sets, or that would make Python recompile the app at each start.
"""
AT_FIRST_PAINT = f"""
import sys
from frn_tui.app import FrnApp
FrnApp._begin = FrnApp.exit
FrnApp().run(headless=True)
print(" ".join(name for name in {HEAVY} if name in sys.modules))
"""
How = Literal["terminal", "engine", "headless"]


@dataclass(frozen=True, slots=True)
class Measure:
    """One measurement with its target (A1 to A10)."""

    target: str
    what: str
    value: float
    limit: float
    unit: str = "ms"
    how: How = "terminal"
    """Values measured on a pseudo-terminal, in the engine, or inside the app."""
    hello: float | None = None
    """The value that was measured for Textual's hello-world app."""

    @property
    def ok(self) -> bool:
        """Return whether the target is met."""
        return self.value <= self.limit

    def as_json(self) -> dict[str, object]:
        """Return the record that `app.py --json` prints."""
        return {
            "target": self.target,
            "what": self.what,
            "measured": self.value,
            "limit": self.limit,
            "unit": self.unit,
            "hello_world": self.hello,
            "how": self.how,
            "ok": self.ok,
        }


@dataclass(frozen=True, slots=True)
class Effort:
    """Number of repetitions, and the size of the large folders."""

    starts: int = 5
    keys: int = 30
    many: int = 10_000
    hundreds: int = 200
    extra: int = 16_000
    thousand: int = 1_000


QUICK = Effort(starts=1, keys=4, many=4_000, hundreds=30, extra=6_000, thousand=100)
"""A short version, for testing the script itself."""


class Lab:
    """Starts and measures programs."""

    def __init__(self, photos: Photos, folder: Path, effort: Effort) -> None:
        self.photos, self.folder, self.effort = photos, folder, effort
        self._numbers = count()

    def measure(self) -> Iterator[Measure]:
        """Take all measurements one after the other."""
        yield from self.starts()
        yield from self.imports()
        yield from self.twenty()
        yield from asyncio.run(self.engine())
        yield from self.large()
        yield from self.pixels()
        yield from self.hundreds()

    @contextmanager
    def _start(self, *command: str) -> Iterator[Terminal]:
        with Terminal(command, self._environ(), self.photos.home) as terminal:
            yield terminal

    def _environ(self) -> dict[str, str]:
        environ = {name: value for name, value in os.environ.items() if name not in MISLEADING}
        state = self.folder / f"state-{next(self._numbers)}"
        private = {"FRN_STATE": str(state), "FRN_CACHE": str(self.folder / "cache"), "HOME": str(self.photos.home)}
        return {**environ, **private, "TERM": "xterm-256color", "COLORTERM": "truecolor"}

    # Targets A1, A3 and quitting: the app and hello-world start alternately

    def starts(self) -> Iterator[Measure]:
        """Measure the first paint, the time until the model is ready, and quitting."""
        paint, hello, ready, quits, hello_quits, helps = [], [], [], [], [], []
        orphans = 0
        for _ in range(self.effort.starts):
            with self._start(*HELLO) as terminal:
                hello.append(terminal.until("Hello, world"))
                terminal.settle()
                terminal.press(b"\x11")
                hello_quits.append(terminal.wait())
            with self._start(*APP) as terminal:
                paint.append(terminal.until("frn-tui"))
                ready.append(terminal.until(DEFAULT_MODEL))
                terminal.until("known, unknown")
                terminal.settle()
                below = terminal.below
                terminal.press(b"\x11")
                quits.append(terminal.wait())
                orphans += len(alive(below))
            began = perf_counter()
            subprocess.run([*APP, "--help"], capture_output=True, check=True, env=self._environ())
            helps.append(1000 * (perf_counter() - began))
        yield Measure("A1", "first paint", median(paint), 300, hello=median(hello))
        yield Measure("A1", "first paint, more than hello-world", median(paint) - median(hello), 120)
        yield Measure("A1", "frn-tui --help", median(helps), 120)
        yield Measure("A3", "model ready", median(ready), 1000)
        yield Measure("A8", "quit", median(quits), 500, hello=median(hello_quits))
        yield Measure("A8", "processes left behind", orphans, 0, "")

    def imports(self) -> Iterator[Measure]:
        """Return the heavy modules that are imported before the first paint."""
        words = [sys.executable, "-c", AT_FIRST_PAINT]
        modules = subprocess.run(words, capture_output=True, text=True, check=True, env=self._environ()).stdout.split()
        what = f"of {', '.join(HEAVY)} at first paint"
        yield Measure("A2", what, len(modules), 0, "", "headless")

    # Targets A4 to A8, with 20 classes of 5 photos

    def twenty(self) -> Iterator[Measure]:
        """Measure the memory, and how long keys, queries, corrections and cancelling take."""
        with self._start(*HELLO) as terminal:
            terminal.until("Hello, world")
            hello = resident(terminal.process.pid)
        with self._start(*APP, str(self.photos.twenty)) as terminal:
            terminal.until(f"{WAY * SHOT} photos")
            terminal.settle()
            yield Measure("A4", "memory of the app", resident(terminal.process.pid), 60, "MiB", hello=hello)
            engine = sum(resident(pid) for pid in terminal.below)
            yield Measure("A4", f"memory of the engine, {WAY} x {SHOT}", engine, 350, "MiB")
            yield from self._keys(terminal, "while idle")
            self._add(terminal, self.photos.extra)
            terminal.until("Adding")
            yield from self._keys(terminal, "while embedding")
            terminal.press("escape")
            yield Measure("A8", "cancel", terminal.until("Cancelled"), 250)
            terminal.settle()
            yield from self._questions(terminal)
        with self._start(*APP) as terminal:  # a new start has nothing unsaved, so the app does not ask
            terminal.until("known, unknown")
            terminal.settle()
            self._add(terminal, self.photos.extra)
            terminal.until("Adding")
            terminal.press(b"\x11")  # the app asks for confirmation, because photos being added would be lost
            terminal.until("quit without saving")
            terminal.press(b"quit w\r")
            yield Measure("A8", "quit while embedding", terminal.wait(), 500)

    def _keys(self, terminal: Terminal, when: str, end: str = "") -> Iterator[Measure]:
        """Time keys that move up and down between two classes, ignoring output from other work.

        If other work is running, `end` is the text that appears when this work is done; later keys are not timed.
        """
        terminal.press("down")
        first = terminal.until("moth 001", or_else=end)
        times = []
        for number in range(self.effort.keys):
            terminal.settle(0.05 if when == "while idle" else 0)
            if end and terminal.shows(end):
                break
            terminal.press(("down", "up")[number % 2])
            time = terminal.until(f"moth 00{2 - number % 2}", or_else=end)
            if end and terminal.shows(end):
                break
            times.append(time)
        else:
            if self.effort.keys % 2:
                terminal.press("up")
            terminal.press("up")
        times = times or [first]  # the other work finished before the second key
        if when == "while idle":
            terminal.press("down")
            terminal.settle()
            yield Measure("B12", "written for a key", terminal.written, 3_000, "B")
            terminal.press("up")
            terminal.settle()
            terminal.press(b"?")
            terminal.settle(PICTURES)
            yield Measure("B12", "written for the help", terminal.written, 30_000, "B")
            terminal.press("escape")
            terminal.settle(PICTURES)
            yield Measure("B12", "written to close it", terminal.written, 30_000, "B")
        yield Measure("A5", f"key, {when}, p50", median(times), 60)
        yield Measure("A5", f"key, {when}, p95", _p95(times) if len(times) > 1 else times[0], 60)

    def _questions(self, terminal: Terminal) -> Iterator[Measure]:
        """Measure how long it takes to classify a photo and to correct its answer, one photo after the other."""
        terminal.press(b"\t")
        terminal.settle()
        terminal.press(b"\t")
        terminal.settle()
        verdicts, corrections = [], []
        for number, path in enumerate(self.photos.queries[: max(self.effort.keys // 3, 2)]):
            terminal.paste(str(path))
            verdicts.append(terminal.until(path.name))
            terminal.settle()
            key = number % 9 + 1
            terminal.press(b"%d" % key)
            corrections.append(terminal.until(f"added to moth {key - 1:03d}"))
            terminal.settle()
        yield Measure("A6", f"query of {WAY} x {SHOT}: verdict", median(verdicts), 150)
        yield Measure("A7", "a photo becomes an example: bars", median(corrections), 150)

    async def engine(self) -> list[Measure]:
        """Measure how soon the engine draws an image, and how soon it is free after a cancelled job."""
        os.environ["FRN_CACHE"] = str(self.folder / "cache")
        client = EngineClient()
        await client.start()
        try:
            await client.call(OpenModel(model=DEFAULT_MODEL))
            pictures, free = [], []
            for path in self.photos.queries:
                began = perf_counter()
                await client.call(RenderPreview(path=str(path), columns=42, rows=21))
                pictures.append(1000 * (perf_counter() - began))
            modes: tuple[Mode, Mode] = "half", "kitty"
            tiles: dict[Mode, list[float]] = {mode: [] for mode in modes}
            for path in self.photos.large:
                for mode in modes:
                    began = perf_counter()
                    await client.call(RenderPreview(path=str(path), columns=24, rows=10, mode=mode))
                    tiles[mode].append(1000 * (perf_counter() - began))
            for _ in range(3):
                paths = [str(path) for path in sorted(self.photos.extra.iterdir())]
                job = asyncio.create_task(client.call(EmbedImages(paths=paths)))
                await asyncio.sleep(0.2)
                job.cancel()
                began = perf_counter()
                with suppress(asyncio.CancelledError):
                    await job
                await client.call(SetClasses(State()))
                free.append(1000 * (perf_counter() - began))
        finally:
            await client.close()
        return [
            Measure("A6", "its picture", median(pictures), 60, how="engine"),
            Measure("A6", "a tile of a 12-megapixel JPEG", median(tiles["half"]), 250, how="engine"),
            Measure("A6", "the same photo again, in pixels", median(tiles["kitty"]), 60, how="engine"),
            Measure("A8", "engine free after a cancelled job", median(free), 1000, how="engine"),
        ]

    # Target A9, and target A5 while the app works, with a large folder

    def large(self) -> Iterator[Measure]:
        """Measure how the gallery and the file picker show a large folder, and how the app imports 1,000 photos."""
        many = f"{self.effort.many:,} photos"
        some = f"while {self.effort.thousand:,} photos are imported"
        with self._start(*STAGE, str(self.photos.many)) as terminal:
            terminal.until(DEFAULT_MODEL)
            terminal.settle()
            self._gap(terminal, 1, "of the start, which A1 and A3 are about")
            yield from self._pages(terminal)
            # Longest time in milliseconds for which drawing a page of photos may delay a key press
            yield self._gap(terminal, 2, f"at pages of {many}", 50)
            terminal.paste(str(self.photos.twenty))
            terminal.until("added")
            terminal.settle()
            yield self._gap(terminal, 3, f"while {WAY * SHOT} photos are imported")
            times = [self._list(terminal) for _ in range(max(self.effort.starts // 2, 1))]
            yield Measure("A9", f"{many} listed", median(times), 1000)
            yield self._gap(terminal, 4, f"while {many} are listed")
            terminal.press("shift tab")  # moves from the gallery to the classes
            terminal.settle()
            terminal.paste(str(self.photos.many))
            yield from self._keys(terminal, f"while {many} are scanned", end="suggested")
            terminal.settle()
            terminal.press("escape")
            terminal.settle()
            yield self._gap(terminal, 5, f"while {many} are scanned")
            self._add(terminal, self.photos.thousand)
            yield from self._keys(terminal, some)
            terminal.until("added", since_paste=True)
            terminal.settle()
            yield self._gap(terminal, 6, some)

    @staticmethod
    def _add(terminal: Terminal, folder: Path) -> None:
        """Drop a folder of photos, which become a class."""
        terminal.paste(str(folder))

    def _pages(self, terminal: Terminal) -> Iterator[Measure]:
        """Measure how long each page of a large folder takes to appear in the gallery."""
        before = resident(terminal.process.pid)
        terminal.press("f5")
        terminal.until("00000.jpg")
        terminal.settle()
        times = []
        for _ in range(self.effort.keys):
            terminal.settle()  # wait until the previous page is drawn
            terminal.press("page down")
            times.append(terminal.until(".jpg"))
        yield Measure("A9", "a page of the gallery, p95", _p95(times), 60)
        yield Measure("A9", "memory for it", resident(terminal.process.pid) - before, 40, "MiB")

    def pixels(self) -> Iterator[Measure]:
        """Measure how long a gallery page takes with pixels and with half blocks, until its last image is drawn."""
        modes: tuple[Mode, ...] = ("half", *PIXELS)
        times: dict[Mode, list[float]] = {mode: [] for mode in modes}
        with ExitStack() as stack:
            terminals = {mode: stack.enter_context(self._start(*STAGE, str(self.photos.many), mode)) for mode in modes}
            for terminal in terminals.values():
                terminal.until(DEFAULT_MODEL)
                terminal.settle()
                terminal.press("f5")
                terminal.drawn()
            for _ in range(max(self.effort.keys // 3, 2)):
                for mode, terminal in terminals.items():
                    terminal.press("page down")
                    times[mode].append(terminal.drawn())
        for mode in PIXELS:
            ratio = median(times[mode]) / median(times["half"])
            yield Measure("A9", f"a page as pixels ({mode}), times that of half blocks", ratio, 1.5, "")

    def _list(self, terminal: Terminal) -> float:
        """Measure how long the file picker takes to list the large folder."""
        terminal.press(b"p")
        terminal.until("many")
        terminal.settle()
        terminal.press(b"\r")
        time = terminal.until("00000.jpg")
        terminal.settle()
        terminal.press("left")  # the picker opens again in the folder where it was closed
        terminal.settle()
        terminal.press("escape")
        terminal.settle()
        return time

    def _gap(self, terminal: Terminal, number: int, when: str, limit: float = 100) -> Measure:
        """Return the longest pause of the event loop since the last call.

        The line with the result is numbered, because the app may draw an older line again.
        """
        terminal.press("f6")
        gap = terminal.number(f"longest gap ({number})")
        return Measure("A5", f"longest gap of the event loop, {when}", gap, limit)

    # Target A10, with 200 classes of 5 photos

    def hundreds(self) -> Iterator[Measure]:
        """Measure how long a query takes, and how long it takes to find a class by its name."""
        count = self.effort.hundreds * SHOT
        with self._start(*APP, str(self.photos.hundreds)) as terminal:
            if count > 500:  # the app asks how many photos to add
                terminal.until("photos in")
                terminal.settle()
                for key in ("down", "down", b"\r"):
                    terminal.press(key)
                    terminal.settle(0.05)
            terminal.until(f"{count:,} photos")
            terminal.settle()
            keys = []
            terminal.press(b"/")
            terminal.until("Find a class")
            for key in b"moth 1", b"\x7f\x7f":
                for byte in key:
                    terminal.settle(0.1)
                    terminal.press(bytes([byte]))
                    keys.append(terminal.until())
            terminal.press("escape")
            terminal.settle()
            for _ in range(2):
                terminal.press(b"\t")
                terminal.settle()
            queries = []
            for path in self.photos.queries[: max(self.effort.keys // 3, 2)]:
                terminal.paste(str(path))
                queries.append(terminal.until(path.name))
                terminal.settle()
        what = f"query of {self.effort.hundreds} x {SHOT}"
        yield Measure("A10", f"{what}: verdict", median(queries), 250)
        yield Measure("A10", "class filter, per key", median(keys), 60)


def _p95(times: list[float]) -> float:
    return quantiles(times, n=20, method="inclusive")[-1]


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Few turns and small folders: a try, no result.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the app with its targets and with Textual's hello-world app, in about two minutes."""
    with user_errors():
        effort = QUICK if quick else Effort()
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as folder, progress_bar("Measuring") as show:
            sizes = {"many": effort.many, "hundreds": effort.hundreds}
            photos = draw(Path(folder), **sizes, extra=effort.extra, thousand=effort.thousand)
            measures = []
            for measure in Lab(photos, Path(folder), effort).measure():
                measures.append(measure)
                show(len(measures), 0)
    if as_json:
        print_json({"load": load, "measures": [measure.as_json() for measure in measures]})
        return
    rows = []
    for measure in measures:
        unit = f" {measure.unit}".rstrip()
        hello = "" if measure.hello is None else f"{measure.hello:.0f}{unit}"
        value, limit = f"{measure.value:.0f}{unit}", f"≤ {measure.limit:.0f}{unit}"
        rows.append((measure.target, measure.what, value, limit, hello, measure.how, "ok" if measure.ok else "short"))
    print_table(("", "what", "measured", "target", "hello-world", "how", ""), rows)
    stdout().print(f"{os.cpu_count()} processors, {load:.1f} programs running before; targets are for two idle ones")


if __name__ == "__main__":
    run(main)
