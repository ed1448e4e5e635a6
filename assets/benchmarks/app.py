"""Measure the terminal app by driving it as a user would, on a pseudo-terminal.

Every run has its own state folder, so the app finds no unsaved work to recover. All runs share one feature cache, as a
user's runs do. Keys are timed alone and while the app reads photos.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Annotated

import typer
from bench import AsJson, run, show
from bench.terminal import PICTURES, Terminal, alive, resident
from PIL import Image

from frn.cli.shell.console import progress_bar, user_errors
from frn.data.synthetic import draw_classes
from frn.models.zoo import DEFAULT_MODEL

WAY, SHOT, SIDE = 20, 5, 96
APP = (sys.executable, "-m", "frn_tui.main")
HELLO = """
from textual.app import App
from textual.widgets import Static
class Hello(App):
    def compose(self):
        yield Static("Hello, world")
Hello().run()
"""
"""A minimal Textual app, for comparison."""
MISLEADING = ("NO_COLOR", "TEXTUAL_DRIVER", "COLUMNS", "LINES", "PYTHONDONTWRITEBYTECODE")
"""Environment variables that the pseudo-terminal sets, or that would make Python recompile the app at each start."""

Measure = tuple[str, float, float, str]  # what is measured, the value, its target and its unit


class Lab:
    """Starts and measures programs in a folder with photos of moths."""

    def __init__(self, folder: Path, turns: int, many: int) -> None:
        """Draw `WAY` classes, a query of each, and a folder of `many` photos.

        A JPEG with appended bytes is a different file with the same image.
        """
        self.folder, self.turns, self._numbers = folder, turns, count()
        self.classes, self.many, self.queries = folder / "twenty", folder / "home" / "many", list[Path]()
        moths = draw_classes(WAY, SHOT + 1, size=SIDE, seed=0).images().reshape(WAY, SHOT + 1, SIDE, SIDE, 3)
        (folder / "queries").mkdir()
        self.many.mkdir(parents=True)
        for label, photos in enumerate(moths):
            (home := self.classes / f"moth {label:03d}").mkdir(parents=True)
            self.queries.append(folder / "queries" / f"query-{label:02d}.jpg")
            for path, pixels in zip([self.queries[-1], *(home / f"{n}.jpg" for n in range(SHOT))], photos, strict=True):
                Image.fromarray(pixels).save(path)
        pictures = [path.read_bytes() for path in self.queries]
        for number in range(many):
            (self.many / f"{number:05d}.jpg").write_bytes(pictures[number % WAY] + b"%d" % number)

    def _start(self, *command: str) -> Terminal:
        return Terminal(command, self._environ(), self.folder / "home")

    def _environ(self) -> dict[str, str]:
        environ = {name: value for name, value in os.environ.items() if name not in MISLEADING}
        state, home = self.folder / f"state-{next(self._numbers)}", self.folder / "home"
        private = {"FRN_STATE": str(state), "FRN_CACHE": str(self.folder / "cache"), "HOME": str(home)}
        return {**environ, **private, "TERM": "xterm-256color", "COLORTERM": "truecolor"}

    def starts(self) -> Iterator[Measure]:
        """Measure the first paint, the time until the model is ready, and quitting; hello-world starts alternately."""
        paint, hello, ready, quits, helps, orphans = [], [], [], [], [], 0
        for _ in range(max(self.turns // 6, 1)):
            with self._start(sys.executable, "-c", HELLO) as terminal:
                hello.append(terminal.until("Hello, world"))
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
        yield "first paint", median(paint), 300, "ms"
        yield "first paint, more than Textual's hello-world", median(paint) - median(hello), 120, "ms"
        yield "frn-tui --help", median(helps), 120, "ms"
        yield "model ready", median(ready), 1000, "ms"
        yield "quit", median(quits), 500, "ms"
        yield "processes left behind", orphans, 0, ""

    def session(self) -> Iterator[Measure]:
        """Measure the memory, and how long keys, queries, corrections, a large folder and cancelling take."""
        with self._start(*APP, str(self.classes)) as terminal:
            terminal.until(f"{WAY * SHOT} photos")
            terminal.settle()
            yield "memory of the app", resident(terminal.process.pid), 60, "MiB"
            engine = sum(resident(pid) for pid in terminal.below)
            yield f"memory of the engine, {WAY} x {SHOT}", engine, 350, "MiB"
            yield from self._keys(terminal, "while idle", quiet=0.05)
            yield from self._written(terminal)
            terminal.paste(str(self.many))  # a dropped folder
            terminal.until("Adding")
            yield from self._keys(terminal, "while photos are added")
            terminal.press("escape")
            yield "cancel", terminal.until("Cancelled"), 250, "ms"
            terminal.settle()
            yield from self._questions(terminal)
            yield self._listed(terminal)

    def _keys(self, terminal: Terminal, when: str, quiet: float = 0) -> Iterator[Measure]:
        """Time keys that move up and down between two classes, ignoring output from other work."""
        terminal.press("down")
        times = [terminal.until("moth 001")]
        for number in range(self.turns):
            terminal.settle(quiet)
            terminal.press(("up", "down")[number % 2])
            times.append(terminal.until(f"moth 00{number % 2}"))
        terminal.press("up")
        yield f"key, {when}, p50", median(times), 60, "ms"
        yield f"key, {when}, p95", quantiles(times, n=20, method="inclusive")[-1], 60, "ms"

    def _written(self, terminal: Terminal) -> Iterator[Measure]:
        """Measure the bytes that the app writes to the terminal."""
        steps = ("a key", "down", 3_000), ("the help", b"?", 30_000), ("closing it", "escape", 30_000)
        for what, key, limit in steps:
            terminal.settle(PICTURES)
            terminal.press(key)
            terminal.settle(PICTURES)
            yield f"written for {what}", terminal.written, limit, "B"
        terminal.press("up")
        terminal.settle()

    def _questions(self, terminal: Terminal) -> Iterator[Measure]:
        """Measure how long it takes to classify a photo and to correct its answer, one photo after the other."""
        for _ in range(2):
            terminal.press(b"\t")
            terminal.settle()
        verdicts, corrections = [], []
        for number, path in enumerate(self.queries[: max(self.turns // 3, 2)]):
            terminal.paste(str(path))
            verdicts.append(terminal.until(path.name))
            terminal.settle()
            terminal.press(b"%d" % (number % 9 + 1))
            corrections.append(terminal.until(f"added to moth {number % 9:03d}"))
            terminal.settle()
        yield f"query of {WAY} x {SHOT}: verdict", median(verdicts), 150, "ms"
        yield "a photo becomes an example: bars", median(corrections), 150, "ms"

    def _listed(self, terminal: Terminal) -> Measure:
        """Measure how long the file picker takes to list the large folder."""
        terminal.press(b"p")
        terminal.until("many")
        terminal.settle()
        terminal.press(b"\r")
        return f"{len(os.listdir(self.many)):,} photos listed", terminal.until("00000.jpg"), 1000, "ms"


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Few turns and small folders: a try, no result.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the app with its targets and with Textual's hello-world app, in about a minute."""
    with user_errors(), tempfile.TemporaryDirectory() as folder, progress_bar("Measuring") as progress:
        load, rows = os.getloadavg()[0], list[dict[str, object]]()
        lab = Lab(Path(folder), *((4, 2_000) if quick else (30, 10_000)))
        for measures in (lab.starts(), lab.session()):
            for what, value, target, unit in measures:
                result = {"what": what, "measured": round(value), "target": target, "unit": unit}
                rows.append(result | {"": "ok" if value <= target else "short"})
                progress(len(rows), 0)
    show(rows, as_json, f"{os.cpu_count()} processors, {load:.1f} programs before; targets are for two idle ones")


if __name__ == "__main__":
    run(main)
