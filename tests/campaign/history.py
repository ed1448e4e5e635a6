"""Random histories of commands, library calls and the app over shared caches, compared with an oracle.

Some steps change files: photos, projects, models. The others are questions: each is asked twice, with the caches of the
whole history and with an empty cache and a new app, and must give the same output and the same files. A step depends on
its own seed and the files alone, so a history that fails can be shortened by leaving steps out.
"""

import asyncio
import contextlib
import io
import json
import os
import random
import re
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from frn_tui.client.client import EngineClient
from frn_tui.client.file_requests import LockProject, UnpackBundle
from frn_tui.client.protocol import EngineError, OnEvent, Request, Result, parse
from frn_tui.document import photo_files
from frn_tui.document.controller import Controller
from frn_tui.engine.operations import build_handlers
from frn_tui.engine.worker_queues import Job, serve

from frn.data.synthetic import draw_moth, species
from frn.errors import FrnError
from frn.estimator.few_shot import FewShotClassifier
from frn.features.onnx_runtime import OwnModel
from frn.models.zoo import shipped_extractors
from frn.projects.session import Session, State
from frn.system.processes.messages import convert, decode, encode
from tests.commands import frn

Step = tuple[str, int]  # name and seed of a step
NUMBER = re.compile(r"-?\b\d+(?:\.\d+)?(?:e-\d+)?\b")
NAMES = ("jay", "owl", "wren")
PROJECTS = ("p.frn.json", "away/q.frn.json")


@cache
def photo(kind: int, number: int) -> bytes:
    """Return a small photo of a class; all have the same size in bytes."""
    file = io.BytesIO()
    draw_moth(species(kind), np.random.default_rng([kind, number]), 32).save(file, "PNG", compress_level=0)
    return file.getvalue()


@cache
def version(number: int) -> bytes:
    """Return one of several versions of a small model, which differ in their head and in their features."""
    model = onnx.load(shipped_extractors()["conv4"])
    entry = next(entry for entry in model.metadata_props if entry.key == "frn.head")
    head = json.loads(entry.value)
    entry.value = json.dumps({**head, "alpha": head["alpha"] + number})
    if number == 2:
        weight = model.graph.initializer[0]
        weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * np.float32(0.9), weight.name))
    return bytes(model.SerializeToString(deterministic=True))


def quick(patch: pytest.MonkeyPatch) -> None:
    """Open each network once, in this process, build the command line once, and print no progress of slow commands."""
    patch.setattr("frn.cli.shell.console.EVERY", 1e6)
    opened = cache(OwnModel)
    for kind in ("OwnModel", "ForeignModel"):
        patch.setattr(f"frn.features.extractor.{kind}", opened)
    patch.setattr("os.fsync", lambda descriptor: None)


class InProcess(EngineClient):
    """The app's engine without its process."""

    def __init__(self) -> None:
        super().__init__()
        self.state = "ready"
        self.handlers = build_handlers(os.getpid())

    async def call(self, request: Request[Result], on_event: OnEvent | None = None) -> Result:
        ends: list[dict[str, Any]] = []

        def send(message: Any) -> None:
            sent = decode(encode(message))
            if "end" in sent:
                ends.append(sent)
            elif on_event:
                on_event(sent)

        job = Job(1, parse({"op": request.op, **decode(encode(vars(request)))}), send)
        serve(self.handlers[request.op], job)
        (end,) = ends
        if end["end"] != "done":
            raise EngineError(end["reason"], code=end.get("code", ""))
        result: Result = convert(end["result"], request.result)
        return result


class App:
    """The app without its display."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.controller = Controller(InProcess())

    def do(self, work: Callable[[Controller], Any]) -> Any:
        """Run an action; return its result, or the reason why it failed."""
        try:
            return self.loop.run_until_complete(work(self.controller))
        except FrnError as error:
            return str(error)

    def ask(self, paths: Sequence[Path]) -> object:
        """Classify photos again; return everything that the app shows."""
        controller = self.controller

        async def work(_: Controller) -> None:
            controller.query.clear()
            controller._synced = controller._renewed = None  # as after an edit
            await controller.settle()  # on a busy machine, the search of the examples takes several calls
            await controller.ask(list(map(str, paths)))

        failed, names = self.do(work), controller.names
        answers = {
            answer["path"]: {
                "scores": [{**score, "id": names[score["id"]]} for score in answer.get("scores", [])],
                **{key: answer.get(key) for key in ("nearest", "known", "unknown", "reason")},
            }
            for answer in controller.query.answers
        }
        counted = {entry.name: [str(s.key) for s in entry.supports] for entry in controller.session.state.classes}
        shown = (controller.threshold, controller.known, controller.expected, list(controller.reports.values()))
        return failed, answers, counted, sorted(controller.missing), sorted(controller.skipped), shown


class World:
    """A folder of photos, projects and models that change; shared caches; and an app that stays open."""

    def __init__(self, home: Path) -> None:
        self.home, self.numbers = home, iter(range(1_000_000))
        os.environ |= {"FRN_STATE": str(home / "state"), "FRN_MODELS": str(home / "models")}
        os.environ["FRN_CACHE"] = str(home / "cache")
        self.app, self.log = App(), list[str]()
        for folder, count in (("birds", 3), ("labelled", 2)):
            for kind, name in enumerate(NAMES):
                for number in range(count):
                    self.put(home / folder / name / f"{number}.png", photo(kind, number + 20 * (folder == "labelled")))
        self.queries = [self.put(home / "q" / f"{kind}.png", photo(kind, 50)) for kind in range(4)]
        self.add_model(1)

    def put(self, path: Path, data: bytes) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def add_model(self, number: int) -> None:
        self.put(self.home / "models" / "tiny" / "features.onnx", version(number))
        self.put(self.home / "models" / "tiny" / "model.safetensors", b"")

    @property
    def examples(self) -> list[Path]:
        return sorted((self.home / "birds").rglob("*.png"))

    @property
    def projects(self) -> list[Path]:
        return sorted(self.home.glob("**/*.frn.json"))

    def compare(self, asked: Callable[[App], object], *outputs: Path, app: App | None = None) -> None:
        """Ask with an empty cache and a new app, then with those of the history; both must give the same."""
        places = [place for path in outputs for place in (path, path.with_name(path.name + ".bak"))]
        before = [_content(path) for path in places]
        other, shared = App() if app is None else app, os.environ["FRN_CACHE"]
        os.environ["FRN_CACHE"] = str(self.home / "empty" / f"{next(self.numbers)}")
        expected = _plain(asked(other))
        wanted = [_content(path) for path in places]
        other.loop.close()
        shutil.rmtree(os.environ["FRN_CACHE"], ignore_errors=True)
        os.environ["FRN_CACHE"] = shared
        for path, content in zip(places, before, strict=True):
            _restore(path, content)
        found = _plain(asked(self.app))
        at = next((i for i, pair in enumerate(zip(found, expected, strict=False)) if len(set(pair)) > 1), 0)
        near = slice(max(0, at - 200), at + 200)
        assert _alike(found, expected), f"...{found[near]}...\n instead of ...{expected[near]}..."
        for path, content in zip(places, wanted, strict=True):
            assert _content(path) == content, f"{path} differs"


def _content(path: Path) -> object:
    if path.is_dir():
        return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}
    return path.read_bytes() if path.exists() else None


def _restore(path: Path, content: object) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)


def _plain(value: object) -> str:
    """Return a value as JSON text, with numbers rounded as commands print them."""
    return json.dumps(json.loads(json.dumps(value, default=str), parse_float=lambda text: round(float(text), 6)))


def _alike(found: str, expected: str) -> bool:
    """Return whether texts of `_plain` are equal, but for the last digit of numbers: batches may round it otherwise."""
    numbers, wanted = ([float(each) for each in NUMBER.findall(text)] for text in (found, expected))
    same_words = NUMBER.sub("", found) == NUMBER.sub("", expected)
    return same_words and numbers == pytest.approx(wanted, rel=0, abs=2e-6)


# Steps that change files.


def add_photo(world: World, draw: random.Random) -> None:
    kind = draw.randrange(3)
    other = draw.randrange(3) if draw.random() < 0.2 else kind
    name = f"{draw.randrange(6)}.png"
    world.put(world.home / "birds" / NAMES[kind] / name, photo(other, draw.randrange(6)))


def remove_photos(world: World, draw: random.Random) -> None:
    if files := world.examples:
        home = draw.choice(files).parent
        files = [path for path in files if path.parent == home]
        for path in draw.sample(files, draw.choice([1, 1, len(files) // 2, len(files)])):
            path.unlink()


def replace_photo(world: World, draw: random.Random) -> None:
    """Replace the content of a photo; the size, and often also the time, stay the same."""
    if files := world.examples:
        path = draw.choice(files)
        was = path.stat().st_mtime_ns
        path.write_bytes(photo(draw.randrange(3), draw.randrange(12)) if draw.random() < 0.9 else b"no photo")
        if draw.random() < 0.7:
            os.utime(path, ns=(was, was))


def swap_photos(world: World, draw: random.Random) -> None:
    """Exchange two photos by renaming them."""
    if len(files := world.examples) > 1:
        one, two = draw.sample(files, 2)
        one.rename(one.with_suffix(".tmp"))
        two.rename(one)
        one.with_suffix(".tmp").rename(two)


def take_drive_away(world: World, draw: random.Random) -> None:
    """Take the photos away, or bring them back."""
    here, away = world.home / "birds", world.home / "unplugged"
    if away.exists():
        if not here.exists():
            away.rename(here)
    elif here.exists():
        here.rename(away)


def change_head(world: World, draw: random.Random) -> None:
    """Change the head, the threshold or the photos of a project, as another program may."""
    if projects := world.projects:
        path = draw.choice(projects)
        document = json.loads(path.read_text())
        match draw.choice(["head", "head", "head", "no head", "threshold", "others"]):
            case "head" if "head" in document:
                document["head"] |= {"alpha": draw.choice([20.0, -3.0, 1.5]), "gamma": draw.choice([2.0, 0.1, 30.0])}
            case "no head":
                document.pop("head", None)
            case "threshold":
                document["threshold"] = draw.choice([None, 0.3, 0.9])
            case "others" if any(entry["images"] for entry in document["classes"]):
                entry = draw.choice([entry for entry in document["classes"] if entry["images"]])
                document.setdefault("others", []).append(entry["images"].pop())
        path.write_text(json.dumps(document))


def copy_project(world: World, draw: random.Random) -> None:
    """Get a project from elsewhere, over the same photos."""
    if projects := world.projects:
        source = draw.choice(projects)
        document = json.loads(source.read_text())
        for image in [i for e in document["classes"] for i in e["images"]] + document.get("others", []):
            image["path"] = os.path.abspath(source.parent / image["path"])  # noqa: PTH100
            image["mtime_ns"] += draw.choice([0, 1])
        world.put(world.home / draw.choice(PROJECTS), json.dumps(document).encode())


def change_model(world: World, draw: random.Random) -> None:
    """Remove the added model, or add a version of it."""
    if draw.random() < 0.3:
        shutil.rmtree(world.home / "models" / "tiny", ignore_errors=True)
    else:
        world.add_model(draw.randrange(3))


def clear_caches(world: World, draw: random.Random) -> None:
    shutil.rmtree(world.home / "cache", ignore_errors=True)


# Questions.


LOOKS: tuple[list[str], ...] = ([], [], ["--tta", "hflip"], ["--tta", "auto"], ["--find", "one"], ["--find", "auto"])


def _classes(world: World, draw: random.Random) -> tuple[Path, list[str]]:
    """Return classes, and options that name their model and how photos are looked at."""
    table, packed = world.home / "t.csv", world.home / "birds.zip"
    match draw.choice(["folder", "folder", "project", "project", "project", "table", "zip"]):
        case "project" if world.projects:
            return draw.choice(world.projects), draw.choice(LOOKS)
        case "table" if world.examples:
            rows = [f"{path},{path.parent.name}" for path in world.examples]
            gone = f"{world.home / 'birds' / 'jay' / 'gone.png'},jay"
            table.write_text("\n".join(["path,label", *rows, *draw.choice([[], [gone]])]))
            return table, ["--model", draw.choice(["conv4", "tiny"])]
        case "zip" if (world.home / "birds").exists():
            shutil.make_archive(str(packed.with_suffix("")), "zip", world.home / "birds")
            return packed, ["--model", "conv4"]
    return world.home / "birds", ["--model", draw.choice(["conv4", "tiny"]), *draw.choice(LOOKS)]


def _run(*words: object) -> Callable[[App], object]:
    def run(_: App) -> object:
        result = frn(*words)
        return result.exit_code, result.stdout, result.stderr

    return run


def classify(world: World, draw: random.Random) -> None:
    classes, options = _classes(world, draw)
    more: list[object] = draw.choice([[], [], ["--transductive"], [*world.examples[:2]]])
    world.compare(_run("classify", classes, *world.queries, *more, "--json", *options))


def score(world: World, draw: random.Random) -> None:
    classes, options = _classes(world, draw)
    world.compare(_run("score", classes, world.home / "labelled", "--json", *options))


def explain(world: World, draw: random.Random) -> None:
    (classes, options), out = _classes(world, draw), world.home / "x.png"
    world.compare(_run("explain", classes, draw.choice(world.queries), "--out", out, "--replace", *options), out)


def enroll(world: World, draw: random.Random) -> None:
    out, (classes, options) = world.home / draw.choice(PROJECTS), _classes(world, draw)
    world.compare(_run("enroll", classes, "--out", out, "--replace", "--json", *options), out)


def group(world: World, draw: random.Random) -> None:
    out = world.home / f"g{next(world.numbers)}.frn.json"
    world.compare(_run("group", world.home / "birds", "--out", out, "--json", "--model", "conv4"), out)
    out.unlink(missing_ok=True)


def export(world: World, draw: random.Random) -> None:
    (classes, _), out = _classes(world, draw), world.home / "exported"
    _restore(out, None)
    world.compare(_run("export", "--classes", classes, "--model", "conv4", "--out", out, "--json"), out)
    shutil.rmtree(out, ignore_errors=True)


def _by_library(path: Path, queries: Sequence[Path]) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            loaded = FewShotClassifier.load(path)
        except FrnError as error:
            return str(error)
        shares = loaded.predict_proba(queries), loaded.explained(queries), loaded.is_unknown(queries)
        return (
            list(loaded.classes_),
            *(each.tolist() for each in shares),
            loaded.threshold_,
            [str(each.message) for each in caught],
        )


def library(world: World, draw: random.Random) -> None:
    """Load a project, add a photo, and save it."""
    if not world.projects:
        return
    path, out = draw.choice(world.projects), world.home / draw.choice(PROJECTS)
    added = world.put(world.home / "labelled" / "added.png", photo(draw.randrange(3), 40 + draw.randrange(3)))
    out.parent.mkdir(exist_ok=True)

    def run(_: App) -> object:
        found = _by_library(path, world.queries)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                loaded = FewShotClassifier.load(path)
                loaded.partial_fit({loaded.classes_[0]: [added]}).save(out, replace=True)
            except FrnError as error:
                return found, str(error)
            return found, loaded.predict_proba(world.queries).tolist()

    world.compare(run, out)


def doors_agree(world: World, draw: random.Random) -> None:
    """The command line, the library and the app give the same answers for a project."""
    if not world.projects:
        return
    path = draw.choice(world.projects)
    result, by_library = frn("classify", path, *world.queries, "--json"), _by_library(path, world.queries)
    app = world.app
    failed = app.do(lambda controller: controller.load(str(path)))
    app.do(lambda controller: controller.engine.call(LockProject(None)))
    if result.exit_code:
        assert isinstance(by_library, str), (result.stderr, by_library)
        assert by_library in result.stderr, (result.stderr, by_library)
        return
    assert not isinstance(by_library, str), by_library
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert failed is None, failed
    app.ask(world.queries)
    for row, (line, answer) in enumerate(zip(lines, app.controller.query.answers, strict=True)):
        names = app.controller.names
        by_app = {names[s["id"]]: (s["probability"], s["explained"]) for s in answer["scores"]}
        for column, name in enumerate(by_library[0]):
            shares = line["probabilities"][name], by_library[1][row][column], by_app[name][0]
            np.testing.assert_allclose(shares, shares[0], atol=1e-4, err_msg=f"{line} {by_library} {by_app}")
            np.testing.assert_allclose(by_library[2][row][column], by_app[name][1], atol=1e-4)
        assert line["unknown"] == by_library[3][row] == answer["unknown"], (line, answer)
        # where a head explains nothing, rounding decides which class is the best, and `known` depends on its centre
        near = 1e-3 if line["explained"] > 1e-4 else 0.1
        expected = None if line["known"] is None else pytest.approx(line["known"], abs=near)
        assert answer.get("known") == expected, (line, answer)
        assert set(line["probabilities"]) == set(by_app) == set(by_library[0])


def open_in_app(world: World, draw: random.Random) -> None:
    """Open a project or the folder, classify photos, and save."""
    projects, out = world.projects, world.home / draw.choice(PROJECTS)
    path = draw.choice(projects) if projects and draw.random() < 0.7 else None
    saves = draw.random() < 0.5

    def run(app: App) -> object:
        async def opened(controller: Controller) -> None:
            if path is not None:
                await controller.load(str(path))
                return
            if not controller.model_name:
                await controller.open_model("conv4")
            else:
                await controller.change_model("conv4")
            found = await controller.scan(str(world.home / "birds"))
            await controller.open_folder(str(world.home / "birds"), found["classes"])

        if (failed := app.do(opened)) and path is not None:
            return failed
        answers = app.ask(world.queries)
        saved = app.do(lambda controller: controller.save(str(out), replace=True)) if saves else ""
        app.do(lambda controller: controller.engine.call(LockProject(None)))
        return str(failed), answers, saved, sorted(map(str, app.controller.problems))

    world.compare(run, out)


def edit_in_app(world: World, draw: random.Random) -> None:
    """Edit the open classes; a new app with the same classes gives the same answers."""
    session, controller = world.app.controller.session, world.app.controller
    if not session.state.classes or controller.model is None:
        return
    _edit(session, draw)
    state = session.state
    other = App()

    async def opened(new: Controller) -> None:
        await new.open_model(controller.model_name)  # again: an open app keeps its version of a model
        if new is not controller:
            new.begin(replace(state, dropped=frozenset()))
        await new.find_missing()

    def run(app: App) -> object:
        return app.do(opened) or app.ask(world.queries)

    world.compare(run, app=other)


def _edit(session: Session, draw: random.Random) -> None:
    state: State = session.state
    entries, keys = state.classes, list(state.holders())
    with contextlib.suppress(FrnError):
        match draw.choice(["move", "remove", "rename", "merge", "threshold", "aside", "undo", "undo", "nothing"]):
            case "move" if keys:
                session.move([draw.choice(keys)], draw.choice(entries).id)
            case "remove" if keys:
                session.remove([draw.choice(keys)])
            case "rename":
                session.rename(draw.choice(entries).id, f"bird {draw.randrange(9)}")
            case "merge" if len(entries) > 1:
                session.merge(entries[0].id, entries[1].id)
            case "threshold":
                session.set_threshold(draw.choice([None, 0.3, 0.9]))
            case "aside" if keys:
                session.set_aside([state.holders()[draw.choice(keys)][1]])
            case "undo" if session.can_undo:
                session.undo()


def bundle(world: World, draw: random.Random) -> None:
    """Bundle the classes open in the app, unpack the bundle and classify with it."""
    number = next(world.numbers)
    packed, home = world.home / f"{number}.zip", world.home / f"unpacked {number}"
    world.app.do(lambda controller: photo_files.bundle(controller, str(packed)))
    if packed.exists():
        path = world.app.do(lambda c: c.engine.call(UnpackBundle(str(packed), str(home))))
        world.compare(_run("classify", path, *world.queries, "--json"))
        shutil.rmtree(home)
        packed.unlink()


STEPS: dict[Callable[[World, random.Random], None], int] = {
    add_photo: 6, remove_photos: 5, replace_photo: 6, swap_photos: 2, take_drive_away: 3, change_head: 7,
    copy_project: 3, change_model: 4, clear_caches: 3,
    classify: 12, score: 3, explain: 2, enroll: 9, group: 1, export: 1, library: 5, doors_agree: 6, open_in_app: 6,
    edit_in_app: 5, bundle: 1,
}  # fmt: skip
"""Steps, and how often each is drawn."""
NAMED = {step.__name__: step for step in STEPS}


def draw_history(seed: int, length: int = 6) -> list[Step]:
    """Return a random history; every one starts with a project."""
    draw = random.Random(seed)
    steps = draw.choices(list(STEPS), list(STEPS.values()), k=length)
    return [("enroll", draw.randrange(1 << 30)), *((step.__name__, draw.randrange(1 << 30)) for step in steps)]


def difference(history: Sequence[Step], home: Path) -> str:
    """Run a history in an empty folder; return what differed at its last step, or an empty text."""
    shutil.rmtree(home, ignore_errors=True)
    world = World(home)
    try:
        for number, (name, seed) in enumerate(history):
            try:
                NAMED[name](world, random.Random(seed))
            except AssertionError as error:
                return f"step {number + 1}, {name}: {error}"
    finally:
        world.app.loop.close()
    return ""


def shortened(history: Sequence[Step], home: Path) -> list[Step]:
    """Leave out steps of a history that fails, as long as it fails at its last step."""
    steps = list(history)
    for place in reversed(range(len(steps))):
        fewer = steps[:place] + steps[place + 1 :]
        if difference(fewer, home):
            steps = fewer
    return steps
