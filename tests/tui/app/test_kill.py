"""The app, its engine or both are killed while photos are added and saved; the saved state is recovered.

`FRN_KILLS=50x1000` kills 50 times at random moments while a thousand photos load; `-s` shows the time lost.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from frn.projects.project import load_project

KILLS, PHOTOS = map(int, os.environ.get("FRN_KILLS", "3x60").split("x"))
TIMEOUT = 600.0 if "FRN_KILLS" in os.environ else 60.0
LOST = 5.0  # seconds of work that may be lost
USER = """
import asyncio, json, os, sys, time
from frn_tui.app import FrnApp
from frn_tui.dialogs.dialogs import Choose

place, fresh, photos, project = sys.argv[1:]

async def use(pilot):
    app = pilot.app
    controller, saved = app.controller, 0.0

    def tell():
        classes = {entry.name: [str(s.path) for s in entry.supports] for entry in controller.session.state.classes}
        adding = {name: paths for classes in controller.adding for name, paths in classes.items()}
        facts = {"time": time.time(), "classes": classes, "adding": adding, "engine": app.engine.pid}
        facts["problems"] = [problem.path for problem in controller.problems]
        os.write(1, json.dumps(facts).encode() + b"\\n")

    while controller.model is None:
        await asyncio.sleep(0.02)
    while any(worker.group == "job" and worker.is_running for worker in app.workers):
        if isinstance(app.screen, Choose):
            await pilot.press("enter")  # go on with what was unsaved
        await asyncio.sleep(0.05)
    tell()
    for entry in controller.session.state.classes[:-1]:
        controller.session.delete(entry.id)
        await controller.sync()
        tell()
    controller.session.create(fresh)
    await controller.sync()
    tell()
    app.workspace.classes_pane.chosen = controller.session.state.named(fresh).id
    app.workspace.classes_pane.add([photos])
    while True:
        await asyncio.sleep(0.05)
        tell()
        if time.time() - saved > 1:
            saved = time.time()
            app.workspace.context.start(lambda: controller.save(project, replace=True))

FrnApp(place or None, images="half").run(headless=True, auto_pilot=use)
"""
"""A user who recovers unsaved work, deletes all classes but the last, merges a folder into a class, and saves often."""


Paths = dict[str, set[str]]


class User:
    """Use the app in a separate process."""

    def __init__(self, project: Path, fresh: str, photos: Path) -> None:
        place = str(project) if project.exists() else ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, place, fresh, str(photos), str(project)], stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.told: list[dict[str, Any]] = []
        self._rest = b""

    def until(self, reached: Callable[[], object], seconds: float = TIMEOUT) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.listen()
            if reached():
                return
            assert self.process.poll() is None, "the app has ended"
            time.sleep(0.02)
        raise AssertionError(f"it did not happen in time; last: {str(self.told[-1:])[:500]}")

    def kill(self) -> float:
        """Kill the app and return the time."""
        self.process.kill()
        killed = time.time()
        self.process.wait()
        self.listen()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return killed

    def listen(self) -> None:
        assert self.process.stdout is not None
        *lines, self._rest = (self._rest + (self.process.stdout.read() or b"")).split(b"\n")
        self.told += [json.loads(line) for line in lines]


def paths_of(classes: dict[str, list[str]], adding: dict[str, list[str]]) -> Paths:
    """Return all photos of each class, including those that are still loading; paths of a project become absolute."""
    names = (*classes, *adding)
    return {name: {*map(os.path.normpath, (*classes.get(name, ()), *adding.get(name, ())))} for name in names}


def kept(state: Path, project: Path) -> Paths:
    """Return the content of the newest journal, or of the project if nothing is unsaved."""
    entries = [json.loads(path.read_text()) for path in state.glob("journal-*.json")]
    entry = max(entries, key=lambda entry: float(entry["time"]), default=None)
    if entry is not None:
        classes = {one["name"]: [support["path"] for support in one["supports"]] for one in entry["state"]["classes"]}
        return paths_of(classes, entry["adding"])
    saved = load_project(project).state.classes if project.exists() else ()
    return paths_of({one.name: [str(support.path) for support in one.supports] for one in saved}, {})


def lost(told: list[dict[str, Any]], killed: float, found: Paths) -> float:
    """Return the seconds between a kill and the last earlier moment whose photos were all recovered."""
    for facts in reversed(told):
        wanted = paths_of(facts["classes"], facts["adding"])
        unreadable = {*map(os.path.normpath, told[-1]["problems"])}  # the photos read before the engine was killed
        if all(paths - unreadable <= found.get(name, set()) for name, paths in wanted.items()):
            return killed - float(facts["time"])
    return float("inf")


def draw(folder: Path, data: bytes) -> Path:
    """Make a folder of copies of a photo, each with different content."""
    folder.mkdir()
    for number in range(PHOTOS):
        (folder / f"{number}.png").write_bytes(data + f"{folder.name}/{number}".encode())
    return folder


@pytest.mark.nightly
@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_edits_older_than_five_seconds_survive_any_kill(private_state: Path, moths: Path, tmp_path: Path) -> None:
    chance = random.Random(KILLS)
    data = (moths / "test" / "moth 40" / "00.png").read_bytes()
    project = tmp_path / "work.frn.json"
    told: list[dict[str, Any]] = []
    sure: Paths = {}
    killed = 0.0
    for number in range(KILLS + 1):
        name = f"class {number}"
        user = User(project, name, draw(tmp_path / f"photos {number}", data))
        try:
            user.until(lambda user=user: user.told)  # type: ignore[misc]
            assert not user.told[0]["adding"]
            found = paths_of(user.told[0]["classes"], {})
            missing = {one: paths - found.get(one, set()) for one, paths in sure.items()}
            assert not any(missing.values()), f"{missing}"[:1000]
            if told:
                print(f"kill {number}: {lost(told, killed, found):.1f} s lost")
                assert lost(told, killed, found) <= LOST
            if number == KILLS:
                break
            strike(user, ("app", "engine", "both")[number % 3], name, (private_state, project), chance)
        finally:
            killed = user.kill()
        told, sure = user.told, kept(private_state, project)
        for paths in sure.values():
            paths.difference_update(map(os.path.normpath, told[-1]["problems"]))
        assert len(sure.get(name, ())) >= PHOTOS - 1 or "FRN_KILLS" in os.environ


def strike(user: User, victim: str, name: str, places: tuple[Path, Path], chance: random.Random) -> None:
    """Kill the engine unless the victim is the app. The caller kills the app, perhaps after the engine's restart."""
    user.until(lambda: name in user.told[-1]["adding"] or name in user.told[-1]["classes"])
    begun = time.time()
    if "FRN_KILLS" in os.environ:
        moment = begun + chance.uniform(0, 1.5 * LOST)
        user.until(lambda: time.time() >= moment)
    else:
        user.until(lambda: len(kept(*places).get(name, ())) >= PHOTOS - 1)
        assert time.time() - begun < LOST
    engine = user.told[-1]["engine"]
    if victim == "app" or engine is None:
        return
    os.kill(engine, signal.SIGKILL)
    if victim == "engine":  # the app starts another engine
        user.until(lambda: user.told[-1]["engine"] not in (None, engine))
        moment = time.time() + chance.uniform(0, LOST if "FRN_KILLS" in os.environ else 0.1)
        user.until(lambda: time.time() >= moment)
