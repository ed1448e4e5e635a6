"""Damaged files that the program itself wrote: it must give the same result as before or refuse the file."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np

from frn.data.folders import scan
from frn.data.pixel_cache import load_images
from frn.data.synthetic import draw_moth, species
from frn.features.feature_cache import FeatureStore
from frn.images.transforms import EvaluationTransform
from frn.system.caches import cached_splits
from tests.campaign.campaign import Part
from tests.campaign.files import Maker, damaging, damaging_json
from tests.campaign.mutations import TEXT, flip_bits, mutate, mutate_json, set_bytes

HOME = Path(os.environ.get("TMPDIR", "/tmp")) / f"frn-campaign-{os.getpid()}"  # valid files, made once per worker


def one_of(files: Mapping[str, bytes]) -> Maker:
    """Return one of several files, damaged, preceded by its name and a NUL."""
    names = sorted(files)

    def make(generator: np.random.Generator) -> bytes:
        name = names[int(generator.integers(len(names)))]
        changes = {"changes": TEXT} if name.endswith((".json", "used", ".toml")) else {}
        return name.encode() + b"\0" + mutate([files[name]], generator, **changes)

    return make


def feature_cache() -> Part:
    """Feature maps are either found unchanged or not found; in the latter case they are stored again."""
    generator = np.random.default_rng(0)
    maps = {f"{number:032x}": generator.standard_normal((4, 8)).astype(np.float32) for number in range(40)}
    good = HOME / "features.sqlite"
    store = FeatureStore(good)
    for model in ("a" * 64, "b" * 64):
        store.put(model, maps if model[0] == "a" else {key: -value for key, value in maps.items()})
    store.close()
    data = good.read_bytes()

    def door(data: bytes, folder: Path) -> None:
        path = folder / "features.sqlite"
        path.write_bytes(data)
        for _ in range(2):
            store = FeatureStore(path)
            for key, expected in maps.items():
                for model, sign in (("a" * 64, 1), ("b" * 64, -1)):
                    found = store.get(model, key, (4, 8))
                    assert found is None or np.array_equal(found[0], sign * expected)
                    if found is None:
                        store.put(model, {key: sign * expected})
            store.close()

    return Part(5_000, damaging([data]), door, refuses=False)


def pixel_cache() -> Part:
    """Cached images equal the decoded ones."""
    os.environ["FRN_CACHE"] = str(HOME / "cache")
    for number in range(4):
        path = HOME / "photos" / f"moth {number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        draw_moth(species(number % 2), np.random.default_rng(number), 32).save(path)
    folders, transform = scan(HOME / "photos"), EvaluationTransform(size=16, resize=16)
    expected = load_images(folders, transform)
    pixels = expected.images().copy()
    (home,) = (path for path in (HOME / "cache" / "images").iterdir() if path.name[0] != ".")
    files = {path.name: path.read_bytes() for path in home.iterdir()}

    def door(data: bytes, folder: Path) -> None:
        name, _, content = data.partition(b"\0")
        for other, good in files.items():
            (home / other).write_bytes(content if other == name.decode() else good)
        cached_splits()
        found = load_images(folders, transform)
        assert np.array_equal(found.images(), pixels)
        assert (found.names, found.sizes, found.broken) == (expected.names, expected.sizes, expected.broken)
        assert found.checksum == expected.checksum

    return Part(5_000, one_of(files), door, refuses=False)


def exported_sets() -> Part:
    """A file of an export is read as it was written or refused, also if its manifest is damaged; others stay."""
    from frn.system.file_sets import MANIFEST, read_member, write_set

    files = {"features.onnx": b"features" * 9, "head.onnx": b"head" * 9}
    write_set(HOME / "exported", files)
    whole = {path.name: path.read_bytes() for path in (HOME / "exported").iterdir()}

    def door(data: bytes, folder: Path) -> None:
        name, _, content = data.partition(b"\0")
        for other, good in {**whole, "notes.txt": b"mine"}.items():
            (folder / other).write_bytes(content if other == name.decode() else good)
        try:
            found = {name: read_member(folder / name, 1 << 20) for name in files}
            assert found == files or name.decode() not in (MANIFEST, *files), found
        finally:
            write_set(folder, {"head.onnx": b"new"}, replace=True)
            assert (folder / "notes.txt").read_bytes() == b"mine"
            assert read_member(folder / "head.onnx", 1 << 20) == b"new"

    return Part(5_000, one_of(whole), door)


def move_journals() -> Part:
    """Photos being moved by a killed program: each is complete in at least one place, for any journal."""
    from frn_tui.engine.files.moves import MoveJournal, settle_all

    home = HOME / "moving"
    os.environ["FRN_STATE"] = str(home / "state")
    photos = {"card/a.jpg": b"a", "card/b.jpg": b"b", "out/b.jpg": b"b", "out/c.jpg": b"c", "out/other.jpg": b"other"}

    def restore() -> None:
        shutil.rmtree(home / "card", ignore_errors=True)
        shutil.rmtree(home / "out", ignore_errors=True)
        for name, content in photos.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(content)

    restore()
    journal = MoveJournal()
    for name in "ab":
        with journal.moving(home / "card" / f"{name}.jpg", home / "out" / f"{name}.jpg"):
            pass
    whole = journal.path.read_bytes().splitlines(keepends=True)
    unfinished = [b"".join(whole[:number]) for number in range(1, len(whole) + 1)]

    def door(data: bytes, folder: Path) -> None:
        restore()
        journal.path.write_bytes(data)
        settle_all()
        left = {path.read_bytes() for path in home.rglob("*.jpg")}
        assert left == set(photos.values()), left
        assert (home / "card" / "a.jpg").exists()

    return Part(5_000, damaging(unfinished, changes=TEXT), door, refuses=False)


def project_locks() -> Part:
    """A project counts as open elsewhere if its lock is held, whatever the lock file contains."""
    from frn_tui.client.file_requests import LockProject
    from frn_tui.engine.files.journal import RunningApp
    from frn_tui.engine.worker_queues import Job

    os.environ["FRN_STATE"] = str(HOME / "locks")
    (HOME / "locks" / "open").mkdir(parents=True, exist_ok=True)
    project, job, other = str(HOME / "x.frn.json"), cast(Job, SimpleNamespace()), RunningApp(os.getppid(), 0)

    def door(data: bytes, folder: Path) -> None:
        other.lock(LockProject(project), job)
        (path,) = (HOME / "locks" / "open").glob("*.lock")
        path.write_bytes(data)
        assert isinstance(RunningApp(os.getpid(), 0).holder(project), int)
        other.lock(LockProject(None), job)
        path.write_bytes(data)  # the lock of a killed app
        assert RunningApp(os.getpid(), 0).holder(project) is None

    return Part(5_000, damaging([b"process 4711 (frn-tui birds.frn.json)"], changes=TEXT), door, refuses=False)


def checkpoints_of_runs() -> Part:
    """A run resumes only from files that it wrote: damaged weights, numbers and settings are refused."""
    import torch

    from frn.models.header import ModelConfig
    from frn.models.model import Model, load_model
    from frn.training.runs.run import RunFolder, TrainState

    torch.manual_seed(0)
    config = ModelConfig(backbone="conv4", method="frn", transform=EvaluationTransform(size=16, resize=None))
    model, objective = Model(config), torch.nn.Module()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    settings = {"seed": 1, "schedule": {"epochs": 3, "learning_rate": 0.1}}
    position = TrainState(total_steps=7, epoch=1)
    (HOME / "run").mkdir(parents=True, exist_ok=True)
    RunFolder(HOME / "run").save_last(model, objective, optimizer, position, settings)
    data = (HOME / "run" / "last.safetensors").read_bytes()
    length = 8 + int.from_bytes(data[:8], "little")
    expected = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    fields = json.loads(data[8:length])

    def make(generator: np.random.Generator) -> bytes:
        draw = generator.random()
        if draw < 0.2:
            return mutate([data], generator)
        if draw < 0.5:
            tensors = mutate([data[length:]], generator, (flip_bits, set_bytes))
            return data[:length] + tensors
        if draw < 0.55:
            return data
        changed = json.loads(mutate_json(fields, generator))
        changed.setdefault("__metadata__", {})
        if isinstance(changed["__metadata__"], dict):  # otherwise it would pass as a file from an older version
            changed["__metadata__"]["crc32"] = fields["__metadata__"]["crc32"]
        text = json.dumps(changed).encode()
        return len(text).to_bytes(8, "little") + text + data[length:]

    def door(data: bytes, folder: Path) -> None:
        (folder / "last.safetensors").write_bytes(data)
        found = RunFolder(folder).load_last(model, objective, optimizer, settings)
        assert found == position
        for state in (model.state_dict(), load_model(folder / "last.safetensors").state_dict()):
            assert all(torch.equal(state[name], tensor) for name, tensor in expected.items())

    return Part(5_000, make, door)


def run_settings() -> Part:
    """A run's `config.toml`, passed to `--config`, gives its preset or another valid one, or is refused."""
    from frn.training.presets.preset import deciding_fields
    from frn.training.runs.run import RunFolder
    from frn.training.runs.run_options import RunOptions

    options = RunOptions(preset="cifar-fs-conv4", epochs=7)
    run = {"seed": 3, "precision": "fp32", "images": ["1 train"], **deciding_fields(options.overridden())}
    run["schedule"]["warm_up"] = 1
    (HOME / "settings").mkdir(parents=True, exist_ok=True)
    written = RunFolder(HOME / "settings")

    def text(settings: Mapping[str, object]) -> bytes:
        written.write_config(["frn train cifar-fs-conv4"], settings)
        return written.config.read_bytes()

    whole = text(run)

    def make(generator: np.random.Generator) -> bytes:
        changed = json.loads(mutate_json(run, generator))
        if isinstance(changed, dict) and generator.random() < 0.6:
            return text(changed)
        return mutate([whole], generator, TEXT)

    def door(data: bytes, folder: Path) -> None:
        (folder / "config.toml").write_bytes(data)
        assert all(isinstance(line, str) for line in RunFolder(folder).commands())
        given = RunOptions(preset="cifar-fs-conv4", config=folder / "config.toml").configured()
        assert given.seed is not None
        assert given.seed >= 0
        json.dumps(deciding_fields(given.overridden()))

    return Part(5_000, make, door)


def reproduced() -> Part:
    """Answers and tables in `frn reproduce` have the right types and finite values, or are measured again."""
    from msgspec import to_builtins

    from frn.reproduce.table_report import Locations, markdown, read, remaining_commands, report, stored
    from frn.reproduce.tables import find_table

    table = find_table("cifar-fs")
    row = table.rows[0]
    measurement = row.cells[min(row.cells)].measurement
    shape = {"way": 5, "queries": 15, "episodes": 10_000, "seconds": 1.0}
    answer = {
        "model": "best", "data": "cifar-fs", "split": "test", "seed": 0,
        "results": [{**shape, "shot": shot, "accuracy": 61.5, "ci95": 0.2} for shot in (1, 5)],
    }  # fmt: skip
    runs = Locations(runs=HOME / "answers", data={"cifar-fs": HOME})
    (HOME / "answers").mkdir(parents=True, exist_ok=True)
    runs.answer(measurement).write_text(json.dumps(answer))
    whole = to_builtins(report(table, [row], runs, {}))
    make_answer, make_table = damaging_json(answer), damaging_json(whole)

    def make(generator: np.random.Generator) -> bytes:
        is_table = generator.random() < 0.5
        return bytes([is_table]) + (make_table if is_table else make_answer)(generator)

    def door(data: bytes, folder: Path) -> None:
        there = Locations(runs=folder, data={"cifar-fs": HOME})
        if not data[0]:
            there.answer(measurement).write_bytes(data[1:])
            found = stored(measurement, there)
            assert found is None or all(abs(figure["accuracy"]) < np.inf for figure in found.results)
            measured = all(stored(each, there) for each in row.measurements)
            assert not measured or not remaining_commands(row, there)
        (folder / "table.json").write_bytes(data[1:] if data[0] else b"")
        before, now = read(folder / "table.json"), report(table, [row], there, {})
        assert before is None or before.rows is not None
        assert markdown(now)

    return Part(5_000, make, door, refuses=False)


def model_notes() -> Part:
    """Notes on an added model are listed if their types are right; the model works without them."""
    from typer.testing import CliRunner

    from frn.cli.main import app
    from frn.models.zoo import EXTRACTOR, NOTES, WEIGHTS, assets_folder

    os.environ["FRN_MODELS"] = str(HOME / "models")
    home = HOME / "models" / "mine"
    home.mkdir(parents=True, exist_ok=True)
    for name, ending in ((WEIGHTS, "safetensors"), (EXTRACTOR, "onnx")):
        shutil.copy(assets_folder() / "models" / f"conv4.{ending}", home / name)
    good = {
        "backbone": "conv4", "about": "birds", "licence": "MIT", "weights": "x.pth", "milliseconds": 1.5,
        "added": "2026-01-01",
    }  # fmt: skip
    size = (home / WEIGHTS).stat().st_size

    def door(data: bytes, folder: Path) -> None:
        (home / NOTES).write_bytes(data)
        listed = CliRunner().invoke(app, ["models", "--json"], catch_exceptions=False)
        facts = json.loads(listed.stdout)["mine"]
        assert (facts["bytes"], facts["method"]) == (size, "frn")
        shown = CliRunner().invoke(app, ["models"], catch_exceptions=False)
        assert (listed.exit_code, shown.exit_code, listed.stderr) == (0, 0, "")
        assert shown.stdout.replace("\n", "").isprintable()

    return Part(5_000, damaging_json(good), door, refuses=False)


def exported_metadata() -> Part:
    """An exported model with changed metadata gives the same maps as before, or is refused."""
    import onnx

    from frn.features.extractor import Extractor
    from frn.models.zoo import shipped_extractors

    good = onnx.load_model_from_string(shipped_extractors()["conv4"].read_bytes())
    entries = {entry.key: entry.value for entry in good.metadata_props}
    whole = Extractor(good.SerializeToString(), "x.onnx", device="cpu", threads=1)
    side = whole.transform.size
    pixels = np.random.default_rng(0).integers(0, 256, (1, side, side, 3), np.uint8)
    expected = whole.feature_maps(pixels)

    def make(generator: np.random.Generator) -> bytes:
        key = sorted(entries)[int(generator.integers(len(entries)))]
        try:
            value = mutate_json(json.loads(entries[key]), generator)
        except ValueError:
            value = mutate([entries[key].encode()], generator, TEXT)
        model = onnx.ModelProto()
        model.CopyFrom(good)
        del model.metadata_props[:]
        changed = {**entries, key: value.decode(errors="replace")}
        if generator.random() < 0.05:
            del changed[key]
        onnx.helper.set_model_props(model, changed)
        return bytes(model.SerializeToString())

    def door(data: bytes, folder: Path) -> None:
        found = Extractor(data, "x.onnx", device="cpu", threads=1)
        assert found.transform.size == side
        assert np.array_equal(found.feature_maps(pixels), expected)

    return Part(5_000, make, door)
