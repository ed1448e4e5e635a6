"""Damaged models, checkpoints, projects, settings, journals, arrays and line files."""

import gzip
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx

from frn.errors import FrnError
from frn.projects.project import Project, load_project, save_project
from tests.campaign.campaign import Part
from tests.campaign.mutations import TEXT, mutate, mutate_json

Maker = Callable[[np.random.Generator], bytes]


def damaging_json(document: object) -> Maker:
    texts = [json.dumps(document).encode(), json.dumps(document, indent=1).encode()]

    def make(generator: np.random.Generator) -> bytes:
        return mutate_json(document, generator) if generator.random() < 0.6 else mutate(texts, generator, TEXT)

    return make


def _damaging_lines(lines: Sequence[object]) -> Maker:
    whole = [json.dumps(line).encode() + b"\n" for line in lines]

    def make(generator: np.random.Generator) -> bytes:
        if generator.random() < 0.5:
            return mutate([b"".join(whole)], generator, TEXT)
        at = int(generator.integers(len(lines)))
        other = mutate_json(lines[at], generator).replace(b"\n", b" ") + b"\n"
        return b"".join([*whole[:at], other, *whole[at + 1 :]])

    return make


def damaging(seeds: Sequence[bytes], **options: object) -> Maker:
    return lambda generator: mutate(seeds, generator, **options)  # type: ignore[arg-type]


def onnx_models() -> Part:
    """A shipped extractor with damaged bytes, and its graph with changed numbers, names and operators."""
    from frn.features.extractor import Extractor
    from frn.models.zoo import shipped_extractors

    good = shipped_extractors()["conv4"].read_bytes()
    pixels = np.zeros((1, 32, 32, 3), np.uint8)

    def make(generator: np.random.Generator) -> bytes:
        return mutate([good], generator) if generator.random() < 0.4 else _other_graph(good, generator)

    def door(data: bytes, folder: Path) -> None:
        Extractor(data, "x.onnx", device="cpu", threads=1).feature_maps(pixels)

    return Part(5_000, make, door)


def _other_graph(good: bytes, generator: np.random.Generator) -> bytes:
    model = onnx.load_model_from_string(good)
    for _ in range(int(generator.integers(1, 4))):
        node = model.graph.node[int(generator.integers(len(model.graph.node)))]
        tensor = model.graph.initializer[int(generator.integers(len(model.graph.initializer)))]
        entry = model.metadata_props[int(generator.integers(len(model.metadata_props)))]
        match int(generator.integers(7)):
            case 0 if node.attribute:
                attribute = node.attribute[int(generator.integers(len(node.attribute)))]
                if attribute.ints:
                    attribute.ints[int(generator.integers(len(attribute.ints)))] = int(generator.integers(-9, 1 << 20))
                attribute.i = int(generator.choice([-1, 0, 1 << 40]))
            case 1 if tensor.dims:
                tensor.dims[int(generator.integers(len(tensor.dims)))] = int(generator.choice([0, -1, 1, 1 << 33]))
            case 2:
                tensor.raw_data = mutate([tensor.raw_data or b"\0" * 8], generator)
            case 3:
                entry.value = mutate([entry.value.encode()], generator, TEXT).decode(errors="replace")
            case 4:
                other = model.graph.node[int(generator.integers(len(model.graph.node)))]
                node.op_type = str(generator.choice([other.op_type, "Expand", "MatMul", "Concat", "Loop", "Relu"]))
            case 5 if node.input:
                names = [name for other in model.graph.node for name in (*other.input, *other.output)]
                node.input[int(generator.integers(len(node.input)))] = str(generator.choice(names))
            case _:
                shape = model.graph.input[0].type.tensor_type.shape.dim
                shape[int(generator.integers(len(shape)))].dim_value = int(generator.choice([0, 1, 7, 1 << 20]))
    return bytes(model.SerializeToString())


def safetensors() -> Part:
    """A model file, damaged mostly in its header."""
    from frn.features.onnx_runtime import MAX_METADATA
    from frn.models.model import load_model
    from frn.models.zoo import shipped_models

    good = shipped_models()["conv4"].read_bytes()
    length = int.from_bytes(good[:8], "little")

    def make(generator: np.random.Generator) -> bytes:
        if generator.random() < 0.3:
            return mutate([good], generator)
        text = mutate([good[8 : 8 + length]], generator, TEXT)[:MAX_METADATA]
        return len(text).to_bytes(8, "little") + text + good[8 + length :]

    def door(data: bytes, folder: Path) -> None:
        (folder / "x.safetensors").write_bytes(data)
        load_model(folder / "x.safetensors")

    return Part(5_000, make, door)


def checkpoints() -> Part:
    """Checkpoints from the authors' code, in the zip format and the older one."""
    import torch

    from frn.models.model import read_reference

    state = {
        "scale": torch.ones(1),
        "r": torch.zeros(2),
        "feature_extractor.layers.0.layers.0.weight": torch.ones(4, 3),
    }
    good = []
    for is_zip in (True, False):
        file = io.BytesIO()
        torch.save(state, file, _use_new_zipfile_serialization=is_zip)
        good.append(file.getvalue())

    def door(data: bytes, folder: Path) -> None:
        (folder / "x.pth").write_bytes(data)
        read_reference(folder / "x.pth")

    return Part(5_000, damaging(good), door)


_PHOTO = {"path": "moth/0.png", "key": "0" * 32, "size": 9, "mtime_ns": 5}
PROJECT = {
    "format": "frn-project", "version": 1, "threshold": 0.4, "next_id": 3, "of another version": [1],
    "model": {"id": "conv4", "sha256": "f" * 64, "preprocess": {"size": 32, "resize": 35, "square": False}},
    "classes": [
        {"id": 1, "name": "jay", "images": [_PHOTO, {**_PHOTO, "path_b64": "YQ==", "key": "1" * 32}]},
        {"id": 2, "name": "wren", "images": []},
    ],
}  # fmt: skip
"""A project with one existing photo and one missing photo."""


def projects() -> Part:
    """Read the file and, if that succeeds, save it again."""

    def door(data: bytes, folder: Path) -> None:
        path = folder / "x.frn.json"
        path.write_bytes(data)
        project = load_project(path)
        again = save_project(path, Project(project.model, project.state, project.document, project.stamp))
        assert load_project(path).state == again.state == project.state

    return Part(5_000, damaging_json(PROJECT), door)


def labels() -> Part:
    """Classes from exports of annotation tools and from tables: every class has a name and photos."""
    from frn.images.boxes import split_box
    from frn.projects.class_files import class_files
    from tests.frn.projects.test_other_tools import COCO, VOC

    plain = b"file_name,label\n0.jpg,jay\n1.jpg,owl\n"
    boxes = b'sep=;\npath;label;x;y;width;height\n0.jpg;jay;1,5;2;30;40\n\'-1.jpg;owl;;;;\n"a;b.jpg";jay;;;;\n'
    makers: dict[str, Maker] = {
        "coco.json": damaging_json(COCO), "voc.xml": damaging([VOC.encode()], changes=TEXT),
        "metadata.csv": damaging([plain], changes=TEXT),
        "table.csv": damaging([boxes, plain], changes=TEXT),
        "table.tsv": damaging([plain.replace(b",", b"\t")], changes=TEXT),
    }  # fmt: skip

    def make(generator: np.random.Generator) -> bytes:
        name = list(makers)[int(generator.integers(len(makers)))]
        return name.encode() + b"\0" + makers[name](generator)

    def door(data: bytes, folder: Path) -> None:
        name, _, content = data.partition(b"\0")
        (folder / name.decode()).write_bytes(content)
        found = class_files(folder if name.startswith(b"metadata") else folder / name.decode())
        assert found.members or found.others
        for label, photos in found.with_others.items():
            assert label.strip()
            assert all(map(split_box, photos))
        assert all("\n" not in line for line in found.skipped)

    return Part(5_000, make, door)


def settings() -> Part:
    """Read the file and save it."""
    from frn_tui.settings.settings import Settings, settings_path

    good = {"theme": "nord", "guided": True, "tile_width": 20, "recent": ["/a"]}

    def door(data: bytes, folder: Path) -> None:
        os.environ["FRN_STATE"] = str(folder)
        settings_path().write_bytes(data)
        Settings.read().opened("/b").write()
        found = Settings.read()
        assert found.trouble or "/b" in found.recent

    return Part(5_000, damaging_json(good), door, refuses=False)


def packages() -> Part:
    """Read the npm package of the page's runtime, with damaged bytes inside and outside its compression."""
    from frn_export.web.runtime import BINARY, PACKAGE, SCRIPT, read_runtime

    described = json.dumps({"name": PACKAGE, "version": "1.30.0"}).encode()
    contents = {"package.json": described, f"dist/{SCRIPT}": b"export {}", f"dist/{BINARY}": b"\0asm" + bytes(64)}
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, content in contents.items():
            (member := tarfile.TarInfo(f"package/{name}")).size = len(content)
            archive.addfile(member, io.BytesIO(content))
    good = gzip.compress(plain.getvalue(), mtime=0)

    def make(generator: np.random.Generator) -> bytes:
        if generator.random() < 0.3:
            return mutate([good], generator)
        return gzip.compress(mutate([plain.getvalue()], generator), mtime=0)

    def door(data: bytes, folder: Path) -> None:
        (path := folder / "x.tgz").write_bytes(data)
        assert read_runtime(path).binary.startswith(b"\0asm")

    return Part(5_000, make, door)


def journals() -> Part:
    """A journal left by a crash and found at the next start."""
    os.environ["FRN_STATE"] = tempfile.gettempdir()
    from frn_tui.client.file_requests import Recover
    from frn_tui.engine.files.journal import RunningApp
    from frn_tui.engine.worker_queues import Job

    support = {"path": "/a.jpg", "key": "0" * 32, "size": 9, "mtime_ns": 5}
    state = {"classes": [{"id": 1, "name": "x", "supports": [support]}], "threshold": None, "next_id": 2}
    good = {
        "format": "frn-journal", "version": 1, "process": 999_999_999, "born": None, "time": 5.0, "state": state,
        "model": "conv4", "project": None, "adding": {"x": ["/b.jpg"]},
    }  # fmt: skip

    def door(data: bytes, folder: Path) -> None:
        os.environ["FRN_STATE"] = str(folder)
        (folder / "journal-999999999.json").write_bytes(data)
        RunningApp(1, 0).recover(Recover(), Job.__new__(Job))

    return Part(5_000, damaging_json(good), door, refuses=False)


def results() -> Part:
    """Continue the results file of a killed run; a refused file must stay unchanged."""
    from frn.inference.records import Unreadable
    from frn.inference.results import ResultsFile

    lines = [{"image": f"/photos/{number}.jpg", "label": "jay", "run": "0123456789ab"} for number in range(4)]

    def door(data: bytes, folder: Path) -> None:
        path = folder / "x.jsonl"
        path.write_bytes(data)
        try:
            with ResultsFile(path, "0123456789ab", resume=True) as file:
                file.add(Unreadable(image="/photos/last.jpg", error="is empty"), None)
        except FrnError:
            assert path.read_bytes() == data
            raise
        assert all(json.loads(line)["run"] == "0123456789ab" for line in path.read_bytes().splitlines())

    return Part(5_000, _damaging_lines(lines), door)


def metrics() -> Part:
    """The metrics of a run, truncated to the step from which it resumes; damaged lines are dropped."""
    from frn.training.runs.run import RunFolder, TrainState

    lines = [{"total_steps": step, "epoch": 1, "loss": 1.5, "accuracy": 61.25} for step in range(1, 5)]

    def door(data: bytes, folder: Path) -> None:
        run = RunFolder(folder)
        run.metrics.write_bytes(data)
        run.rewind_metrics(TrainState(total_steps=3))
        assert all(json.loads(line)["total_steps"] <= 3 for line in run.metrics.read_text().splitlines())

    return Part(5_000, _damaging_lines([*lines, {"total_steps": 4, "val_accuracy": 50.0}]), door, refuses=False)
