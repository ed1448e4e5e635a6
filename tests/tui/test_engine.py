"""What the engine answers, asked in this process: scans, previews, classes, queries, tests, exports, projects."""

import base64
import io
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from frn_tui.engine import class_ranks
from frn_tui.engine.class_ranks import ClassErrors
from frn_tui.engine.operations import build_handlers
from frn_tui.engine.worker_queues import Handler, Request, serve
from frn_tui.protocol import MAPPED, NEAR, QUEUES
from PIL import Image

from frn.images import open_image
from frn.inference.classifier import Classifier
from frn.inference.enrolment import HeadParameters, enroll
from frn.inference.extractor import Extractor
from frn.shipped import shipped_extractors

Message = dict[str, Any]


class Asked:
    """What came of a request."""

    def __init__(self, messages: list[Message]) -> None:
        self.events = [message for message in messages if "event" in message]
        (self.end,) = [message for message in messages if "end" in message]

    def told(self, event: str) -> list[Message]:
        return [message for message in self.events if message["event"] == event]

    @property
    def reason(self) -> str:
        assert self.end["end"] == "failed", self.end
        return str(self.end["reason"])


class Engine:
    def __init__(self, handlers: dict[str, Handler]) -> None:
        self.handlers = handlers

    def ask(self, op: str, /, cancel_at: str = "", **arguments: Any) -> Asked:
        """Serve a request at once; `cancel_at` names the event at which it is cancelled."""
        messages: list[Message] = []

        def send(message: Any) -> None:
            messages.append(json.loads(json.dumps(message)))
            if message.get("event") == cancel_at:
                request.cancelled.set()

        request = Request(1, op, arguments, send)
        serve(self.handlers[op], request)
        return Asked(messages)

    def done(self, op: str, /, **arguments: Any) -> Message:
        end = self.ask(op, **arguments).end
        assert end["end"] == "done", end
        return end

    def state(self, classes: dict[str, list[Path]], threshold: float | None = None) -> Message:
        paths = [str(path) for members in classes.values() for path in members]
        known = {e["path"]: e for e in self.ask("embed", paths=paths).told("embedded")}
        entries = [
            {"id": i, "name": name, "supports": [_support(known[str(path)]) for path in members]}
            for i, (name, members) in enumerate(classes.items(), 1)
        ]
        return {"classes": entries, "threshold": threshold, "next_id": len(entries) + 1}


def _support(event: Message) -> Message:
    return {name: event[name] for name in ("path", "key", "size", "mtime_ns")}


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("FRN_STATE", str(folder))
    return folder


@pytest.fixture
def bare(state_folder: Path) -> Engine:
    return Engine(build_handlers("cpu", os.getpid()))


@pytest.fixture
def engine(bare: Engine) -> Engine:
    bare.done("open_model", model="conv4")
    return bare


@pytest.fixture
def members(moths: Path) -> dict[str, list[Path]]:
    return {folder.name: sorted(folder.iterdir()) for folder in sorted((moths / "test").iterdir())}


def first(members: dict[str, list[Path]], shot: int) -> dict[str, list[Path]]:
    return {name: paths[:shot] for name, paths in members.items()}


def test_every_operation_of_the_protocol_is_there(bare: Engine) -> None:
    assert set(bare.handlers) == set(QUEUES)


@pytest.mark.parametrize("op", ["embed", "query", "classes", "hide_and_test", "export", "save"])
def test_without_a_model_one_is_asked_for(bare: Engine, op: str, tmp_path: Path) -> None:
    state: Message = {"classes": [], "threshold": None, "next_id": 1}
    asked = bare.ask(op, paths=["a"], state=state, shot=1, seed=0, path=str(tmp_path / "x.frn.json"))
    assert "no model is open" in asked.reason


@pytest.mark.parametrize("op", sorted(set(QUEUES) - {"recover"}))
def test_arguments_that_are_missing_are_named(engine: Engine, op: str) -> None:
    assert engine.ask(op).end["end"] == "failed"
    assert "internal error" not in engine.ask(op).reason


def test_a_bug_is_an_answer_too(bare: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(request: Request) -> Message:
        raise ZeroDivisionError("two\nlines")

    bare.handlers["scan"] = broken
    assert bare.ask("scan").reason == "internal error: ZeroDivisionError: two lines"
    assert "Traceback" in capsys.readouterr().err


def test_a_model_tells_what_it_is_and_a_wrong_one_leaves_the_old_open(engine: Engine, tmp_path: Path) -> None:
    told = engine.done("open_model", model="conv4")
    assert (told["side"], told["grid"], told["d"], told["device"]) == (32, [4, 4], 64, "cpu")
    assert "frn export --onnx" in engine.ask("open_model", model=str(tmp_path / "x.safetensors")).reason
    assert "cannot be read" in engine.ask("open_model", model=str(tmp_path / "x.onnx")).reason
    (tmp_path / "junk.onnx").write_bytes(b"junk")
    assert "is not an ONNX file" in engine.ask("open_model", model=str(tmp_path / "junk.onnx")).reason
    assert engine.ask("embed", paths=[]).end["end"] == "done"


# Scanning


def test_a_scan_tells_what_a_path_is(bare: Engine, moths: Path, tmp_path: Path) -> None:
    image = next((moths / "test").glob("*/*.png"))
    assert bare.done("scan", path=str(image))["files"] == [str(image)]
    folder = bare.done("scan", path=str(image.parent))
    assert (folder["kind"], len(folder["files"])) == ("folder", 12)
    classes = bare.done("scan", path=str(moths / "test"))
    assert classes["kind"] == "classes"
    assert [len(files) for files in classes["classes"].values()] == [12] * 5
    project = tmp_path / "x.FRN.json"
    project.write_text("{}")
    assert bare.done("scan", path=str(project))["kind"] == "project"


def test_a_scan_counts_nested_folders_only_where_that_is_asked(bare: Engine, moths: Path) -> None:
    flat = bare.done("scan", path=str(moths), recursive=False)
    assert flat["kind"] == "nothing"
    assert "Open one of them" in flat["reason"]
    deep = bare.done("scan", path=str(moths), recursive=True)
    assert {name: len(files) for name, files in deep["classes"].items()} == {"test": 60, "train": 96, "val": 60}


def test_folders_with_images_win_over_images_beside_them(bare: Engine, tmp_path: Path) -> None:
    (tmp_path / "loose.png").touch()
    (tmp_path / "empty").mkdir()
    assert bare.done("scan", path=str(tmp_path))["kind"] == "folder"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.jpg").touch()
    assert bare.done("scan", path=str(tmp_path))["classes"] == {"full": [str(tmp_path / "full" / "a.jpg")]}


def test_a_scan_leaves_out_what_is_hidden_and_ends_in_loops(bare: Engine, tmp_path: Path) -> None:
    home = tmp_path / "a"
    (home / "b").mkdir(parents=True)
    (home / "b" / "x.png").touch()
    (home / ".hidden.png").touch()
    (home / "b" / "back").symlink_to(home)
    (home / "self").symlink_to(home / "self")
    found = bare.done("scan", path=str(home), recursive=True)
    assert found["classes"] == {"b": [str(home / "b" / "x.png")]}


def test_a_scan_is_not_deeper_than_it_should_be(bare: Engine, tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 40)
    deep.mkdir(parents=True)
    (deep / "x.png").touch()
    assert bare.done("scan", path=str(tmp_path), recursive=True)["kind"] == "nothing"


@pytest.mark.parametrize("path", ["", "  ", "/no/such/place", "a\0b", "/dev/null", __file__])
def test_nothing_has_a_reason(bare: Engine, path: str) -> None:
    found = bare.done("scan", path=path)
    assert found["kind"] == "nothing"
    assert len(found["reason"].splitlines()) == 1


def test_a_long_scan_counts_and_can_be_cancelled(bare: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(200):
        (tmp_path / f"{i}.png").touch()
    monkeypatch.setattr("frn_tui.engine.scan.COUNTED", 0.0)
    assert len(bare.ask("scan", path=str(tmp_path)).told("counted")) == 200
    assert bare.ask("scan", path=str(tmp_path), cancel_at="counted").end["end"] == "cancelled"


def test_a_listing_is_what_a_picker_shows(bare: Engine, tmp_path: Path) -> None:
    for name in ("b.png", "a.JPG", "p.frn.json", "m.onnx", "text.txt", ".hidden.png"):
        (tmp_path / name).touch()
    (tmp_path / "z").mkdir()
    found = bare.done("list", path=f"{tmp_path}/z/..")
    assert (found["path"], found["parent"]) == (str(tmp_path), str(tmp_path.parent))
    kinds = [(entry["kind"], entry["name"]) for entry in found["entries"] if entry["name"] != "cache"]
    assert kinds == [
        ("folder", "z"),
        ("image", "a.JPG"),
        ("image", "b.png"),
        ("project", "p.frn.json"),
        ("model", "m.onnx"),
    ]
    assert "cannot be listed" in bare.ask("list", path=str(tmp_path / "away")).reason


# Previews


def pixels(answer: Message) -> np.ndarray[Any, Any]:
    data = np.frombuffer(base64.b64decode(answer["rgb"]), dtype=np.uint8)
    return data.reshape(answer["height"], answer["width"], 3)


def test_a_preview_is_the_crop_that_the_network_sees(engine: Engine, members: dict[str, list[Path]]) -> None:
    path = members["moth 40"][0]
    answer = engine.done("preview", path=str(path), width=32, height=32, heat=None)
    extractor = Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1)
    np.testing.assert_array_equal(pixels(answer), extractor.transform(open_image(path)))
    assert (answer["image_width"], answer["image_height"]) == (32, 32)


@pytest.mark.parametrize("size", [(1, 1), (7, 200), (168, 168), (84, 20)])
def test_a_preview_has_the_size_that_was_asked_for(
    bare: Engine, members: dict[str, list[Path]], size: tuple[int, int]
) -> None:
    answer = bare.done("preview", path=str(members["moth 40"][0]), width=size[0], height=size[1], heat=None)
    assert pixels(answer).shape == (size[1], size[0], 3)


def test_heat_covers_the_photo(engine: Engine, members: dict[str, list[Path]]) -> None:
    heat = {"map": [[0.0] * 5] * 4 + [[1.0] * 5], "low": 0.0, "high": 1.0, "smooth": False}
    arguments: Message = {"path": str(members["moth 40"][0]), "width": 84, "height": 84}
    plain, hot = (pixels(engine.done("preview", **arguments, heat=value)) for value in (None, heat))
    assert not np.array_equal(plain, hot)
    assert hot[-1, :, 0].mean() > hot[0, :, 0].mean()
    wrong: Any
    for wrong in (
        [],
        {"map": [[1]]},
        {**heat, "map": [1]},
        {**heat, "map": [["x"]]},
        {**heat, "map": [[float("nan")]]},
    ):
        assert "error map" in engine.ask("preview", **arguments, heat=wrong).reason


def test_a_preview_of_a_changed_file_is_new(bare: Engine, tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    seen: list[list[int]] = []
    for colour in ("red", "blue"):
        Image.new("RGB", (90, 90), colour).save(path)
        os.utime(path, ns=(0, len(seen)))
        seen.append(pixels(bare.done("preview", path=str(path), width=1, height=1, heat=None))[0, 0].tolist())
    assert seen == [[255, 0, 0], [0, 0, 255]]


def test_a_preview_tells_the_upright_size_of_a_draft(bare: Engine, tmp_path: Path) -> None:
    path = tmp_path / "x.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (2000, 1000), "green").save(path, exif=exif)
    answer = bare.done("preview", path=str(path), width=4, height=4, heat=None)
    assert (answer["image_width"], answer["image_height"]) == (1000, 2000)


@pytest.mark.parametrize("size", [0, -1, 5000, 1.5, "9", None, True])
def test_a_preview_of_no_size_is_refused(bare: Engine, size: object) -> None:
    assert "whole number from 1 to 4096" in bare.ask("preview", path="x", width=size, height=3).reason


# Embedding and classes


def test_embedding_tells_of_every_file_in_order(engine: Engine, members: dict[str, list[Path]], tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_text("no image")
    paths = [*map(str, members["moth 40"][:5]), str(broken), str(members["moth 41"][0])]
    asked = engine.ask("embed", paths=paths)
    assert [event["path"] for event in asked.told("embedded")] == paths
    assert [event["path"] for event in asked.told("reading")] == paths
    assert "is not an image" in asked.told("embedded")[5]["reason"]
    assert asked.told("embedded")[0]["size"] == members["moth 40"][0].stat().st_size
    assert [(event["done"], event["total"]) for event in asked.told("progress")] == [(4, 7), (7, 7)]
    assert (asked.end["done"], asked.end["broken"]) == (6, 1)


def test_embedding_stops_where_it_is_cancelled(engine: Engine, members: dict[str, list[Path]]) -> None:
    asked = engine.ask("embed", paths=[*map(str, members["moth 40"])], cancel_at="progress")
    assert asked.end["end"] == "cancelled"
    assert len(asked.told("embedded")) == 4
    assert engine.ask("embed", paths=[*map(str, members["moth 40"])]).end["done"] == 12


def test_classes_answer_as_the_library_does(engine: Engine, members: dict[str, list[Path]]) -> None:
    library = Classifier(Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1))
    library.enroll(first(members, 5))
    done = engine.done("classes", state=engine.state(first(members, 5)))
    assert done["calibrated"] == pytest.approx(library.threshold)
    assert done["missing"] == []
    for report, shares in zip(done["reports"], library.left_out.values(), strict=True):
        assert list(report["explained"].values()) == pytest.approx(shares.tolist())
    query = members["moth 42"][9]
    ((_, expected),) = library.classify([query])
    assert not isinstance(expected, Exception)
    asked = engine.ask("query", paths=[str(query)])
    (answer,) = asked.told("answer")
    names = [*members]
    assert {names[s["id"] - 1]: s["error"] for s in answer["scores"]} == pytest.approx(expected.errors, rel=1e-5)
    assert {names[s["id"] - 1]: s["explained"] for s in answer["scores"]} == pytest.approx(expected.explained, rel=1e-5)
    assert sum(s["probability"] for s in answer["scores"]) == pytest.approx(1)
    assert names[answer["scores"][0]["id"] - 1] == expected.label
    assert answer["unknown"] == expected.unknown
    assert np.mean(answer["maps"][str(answer["scores"][0]["id"])]) == pytest.approx(answer["scores"][0]["error"])


def test_ranks_are_those_of_leaving_one_out_by_hand(engine: Engine, members: dict[str, list[Path]]) -> None:
    few = first(members, 3)
    reports = engine.done("classes", state=engine.state(few))["reports"]
    extractor = Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1)
    library = Classifier(extractor)
    for (name, paths), report in zip(few.items(), reports, strict=True):
        for left, path in enumerate(paths):
            library.enroll({**few, name: paths[:left] + paths[left + 1 :]})
            ((_, prediction),) = library.classify([path])
            assert not isinstance(prediction, Exception)
            expected = sum(error < prediction.errors[name] for error in prediction.errors.values())
            assert [*report["rank"].values()][left] == expected


def test_one_more_example_costs_one_class(
    engine: Engine, members: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    enrolled: list[int] = []

    def counting(maps: Any, head: Any) -> Any:
        enrolled.append(len(maps))
        return enroll(maps, head)

    monkeypatch.setattr("frn_tui.engine.enrolled_classes.enroll", counting)
    before = engine.done("classes", state=engine.state(first(members, 3)))
    assert enrolled == [3] * 5
    more = {**first(members, 3), "moth 42": members["moth 42"][:4]}
    after = engine.done("classes", state=engine.state(more))
    assert enrolled == [3] * 5 + [4]
    fresh = Engine(build_handlers("cpu", os.getpid()))
    fresh.done("open_model", model="conv4")
    assert fresh.done("classes", state=fresh.state(more))["reports"] == after["reports"]
    assert engine.done("classes", state=engine.state(first(members, 3)))["reports"] == before["reports"]
    assert len(enrolled) == 11  # those of the second engine; undo enrolled nothing anew


def test_ranks_that_are_too_many_come_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    groups = [tuple(f"{c} {i}" for i in range(3)) for c in range(6)]
    maps = {key: generator.normal(size=(4, 8)).astype(np.float32) for group in groups for key in group}
    head = Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1).head
    assert head is not None
    classes = [enroll(np.stack([maps[key] for key in group]), head) for group in groups]
    request = Request(1, "classes", {}, lambda message: None)
    whole = ClassErrors().errors(request, groups, classes, maps)
    monkeypatch.setattr(class_ranks, "BLOCK", 2 * 4 * 64)
    monkeypatch.setattr(class_ranks, "MOST", 30 * 64)
    slow = ClassErrors()
    missing = [np.isnan(slow.errors(request, groups, classes, maps)).sum() for _ in range(40)]
    assert missing[0] > 0
    assert missing == sorted(missing, reverse=True)
    assert missing[-1] == 0
    np.testing.assert_allclose(slow.errors(request, groups, classes, maps), whole, rtol=1e-5)


def test_near_duplicates_name_each_other(engine: Engine, members: dict[str, list[Path]], tmp_path: Path) -> None:
    image = open_image(members["moth 40"][0]).resize((96, 96))
    for quality, name in ((95, "a.jpg"), (90, "b.jpg")):
        image.save(tmp_path / name, quality=quality)
    classes = {"x": [tmp_path / "a.jpg", *members["moth 41"][:2]], "y": [members["moth 42"][0], tmp_path / "b.jpg"]}
    state = engine.state(classes)
    a, b = state["classes"][0]["supports"][0]["key"], state["classes"][1]["supports"][1]["key"]
    reports = engine.done("classes", state=state)["reports"]
    assert [report["near"] for report in reports] == [{a: b}, {b: a}]
    assert NEAR < 1


def test_classes_without_examples_are_left_out_of_answers(engine: Engine, members: dict[str, list[Path]]) -> None:
    state = engine.state({"empty": [], **first(members, 1)})
    reports = engine.done("classes", state=state)["reports"]
    assert {report["id"] for report in reports} == {1, 2, 3, 4, 5, 6}
    (answer,) = engine.ask("query", paths=[str(members["moth 40"][5])]).told("answer")
    assert {score["id"] for score in answer["scores"]} == {2, 3, 4, 5, 6}
    none = engine.done("classes", state=engine.state({"empty": []}))
    assert (none["threshold"], none["missing"]) == (0.0, [])
    assert "no class with examples" in engine.ask("query", paths=["x"]).reason


def test_the_threshold_of_the_state_is_the_one_in_effect(engine: Engine, members: dict[str, list[Path]]) -> None:
    for threshold, unknown in ((0.0, False), (1.0, True)):
        state = engine.state(first(members, 2), threshold)
        done = engine.done("classes", state=state)
        assert done["threshold"] == threshold
        assert 0 < done["calibrated"] < 1
        (answer,) = engine.ask("query", paths=[str(members["moth 40"][5])]).told("answer")
        assert answer["unknown"] is unknown


def test_missing_maps_are_named_and_leave_the_classes_as_they_were(
    engine: Engine, members: dict[str, list[Path]]
) -> None:
    state = engine.state(first(members, 2))
    engine.done("classes", state=state)
    strange = json.loads(json.dumps(state))
    strange["classes"][0]["supports"][0]["key"] = "f" * 32
    assert engine.done("classes", state=strange)["missing"] == ["f" * 32]
    assert engine.ask("query", paths=[str(members["moth 40"][5])]).end["done"] == 1


def test_maps_beyond_the_limit_are_found_in_the_store(
    engine: Engine, members: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frn_tui.engine.embedding.MAX_KEPT", 20_000)
    assert engine.done("classes", state=engine.state(first(members, 3)))["missing"] == []


# Queries


def test_a_folder_is_answered_file_by_file(engine: Engine, members: dict[str, list[Path]], tmp_path: Path) -> None:
    engine.done("classes", state=engine.state(first(members, 2)))
    paths = [str(members["moth 40"][5]), str(tmp_path / "away.png"), str(members["moth 41"][5])]
    asked = engine.ask("query", paths=paths)
    answers = asked.told("answer")
    assert [answer["path"] for answer in answers] == paths
    assert [("reason" in answer, "scores" in answer) for answer in answers] == [
        (False, True),
        (True, False),
        (False, True),
    ]
    assert not any("maps" in answer for answer in answers)
    assert asked.told("progress")[-1]["done"] == 3
    assert (asked.end["done"], asked.end["broken"]) == (2, 1)
    assert engine.ask("query", paths=paths, cancel_at="answer").end["end"] == "cancelled"


def test_maps_are_those_of_the_likeliest(engine: Engine, moths: Path) -> None:
    classes = {
        f"{split} {folder.name}": sorted(folder.iterdir())[:1]
        for split in ("train", "val", "test")
        for folder in sorted((moths / split).iterdir())
    }
    engine.done("classes", state=engine.state(classes))
    (answer,) = engine.ask("query", paths=[str(next(iter(classes.values()))[0])]).told("answer")
    assert [*answer["maps"]] == [str(score["id"]) for score in answer["scores"][:MAPPED]]
    assert np.shape(next(iter(answer["maps"].values()))) == (4, 4)


def test_hide_and_test_counts_every_hidden_example(engine: Engine, members: dict[str, list[Path]]) -> None:
    engine.done("classes", state=engine.state({**members, "small": []}))
    done = engine.done("hide_and_test", shot=4, seed=0)
    counts = np.array(done["counts"])
    assert counts.sum(1).tolist() == [8] * 5
    assert done["accuracy"] == pytest.approx(np.trace(counts) / 40)
    assert len(done["wrong"]) == 40 - np.trace(counts)
    assert engine.done("hide_and_test", shot=4, seed=0)["wrong"] == done["wrong"]
    assert "two classes" in engine.ask("hide_and_test", shot=12, seed=0).reason
    assert engine.ask("hide_and_test", shot=4, seed=0, cancel_at="progress").end["end"] == "cancelled"


# Files


def test_the_exported_classifier_answers_as_the_app(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    engine.done("classes", state=engine.state(first(members, 2)))
    out = tmp_path / "classifier.onnx"
    engine.done("export", path=str(out))
    session = onnxruntime.InferenceSession(out.read_bytes(), providers=["CPUExecutionProvider"])
    query = members["moth 42"][7]
    (answer,) = engine.ask("query", paths=[str(query)]).told("answer")
    errors = session.run(["class_error"], {"image": np.asarray(open_image(query))})[0]
    expected = sorted((score["id"], score["error"]) for score in answer["scores"])
    np.testing.assert_allclose(errors, [error for _, error in expected], rtol=1e-4)
    assert "is there already" in engine.ask("export", path=str(out)).reason
    engine.done("export", path=str(out), what="bank", replace=True)
    bank = np.load(io.BytesIO(out.read_bytes()))
    assert bank["names"].tolist() == [*members]
    assert len(bank["rows"]) == len(bank["signs"])
    assert "should be one of" in engine.ask("export", path=str(out), what="all").reason
    assert "is a folder" in engine.ask("export", path=str(tmp_path), replace=True).reason


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An extractor of somebody else's network, under a head that nobody trained."""
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("torchvision.models")
    from frn_export.graphs import features_graph

    from frn.checkpoints import import_pretrained

    folder = tmp_path_factory.mktemp("untrained")
    torch.manual_seed(0)
    torch.save(models.get_model("resnet18", weights=None).state_dict(), folder / "resnet18.pth")
    model = import_pretrained("torchvision:resnet18", folder / "resnet18.pth", size=64)
    (folder / "features.onnx").write_bytes(features_graph(model).SerializeToString())
    return folder / "features.onnx"


def test_an_untrained_head_is_chosen_with_the_classes_as_the_library_does(
    bare: Engine, untrained: Path, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    bare.done("open_model", model=str(untrained))
    library = Classifier(Extractor.open(untrained, trusted=True, device="cpu", threads=1))
    query = members["moth 42"][9]
    heads = set()
    for shot in (3, 2):  # one after the other: what was enrolled with another head is not used again
        few = first(members, shot)
        library.enroll(few)
        heads.add(library.head)
        assert bare.done("classes", state=bare.state(few))["calibrated"] == pytest.approx(library.threshold, abs=1e-6)
        ((_, expected),) = library.classify([query])
        assert not isinstance(expected, Exception)
        (answer,) = bare.ask("query", paths=[str(query)]).told("answer")
        told = {[*members][score["id"] - 1]: score for score in answer["scores"]}
        assert {n: s["probability"] for n, s in told.items()} == pytest.approx(expected.probabilities, rel=1e-3)
        assert {n: s["error"] for n, s in told.items()} == pytest.approx(expected.errors, rel=1e-5)
    assert len(heads) == 2
    assert HeadParameters(0.0, 0.0, 1.0) not in heads

    bare.done("export", path=str(tmp_path / "c.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "c.onnx", providers=["CPUExecutionProvider"])
    (shares,) = session.run(["probability"], {"image": np.asarray(open_image(query))})
    np.testing.assert_allclose(shares, [told[name]["probability"] for name in members], atol=1e-3)


def test_hiding_chooses_an_untrained_head_without_what_is_hidden(
    bare: Engine, untrained: Path, members: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bare.done("open_model", model=str(untrained))
    bare.done("classes", state=bare.state(first(members, 4)))
    seen: list[list[int]] = []

    def choose(pools: list[Any]) -> HeadParameters:
        seen.append([len(pool) for pool in pools])
        return HeadParameters(0.0, 0.0, 1.0)

    monkeypatch.setattr("frn_tui.engine.models.by_leave_one_out", choose)
    bare.done("hide_and_test", shot=2, seed=0)
    assert seen == [[2] * 5]


def test_a_project_comes_back_and_keeps_what_it_does_not_know(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    path = tmp_path / "x.frn.json"
    state = engine.state(first(members, 2), 0.5)
    engine.done("save", path=str(path), state=state, replace=False)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "mood": "fine"}))
    assert "was changed by another program" in engine.ask("save", path=str(path), state=state, replace=False).reason
    loaded = engine.done("load", path=str(path))
    assert loaded["model"] == "conv4"
    assert [entry["name"] for entry in loaded["state"]["classes"]] == [*members]
    assert loaded["state"]["classes"][0]["supports"][0]["key"] == state["classes"][0]["supports"][0]["key"]
    loaded["state"]["classes"].pop()
    engine.done("save", path=str(path), state=loaded["state"], replace=False)
    other = tmp_path / "y.frn.json"
    engine.done("save", path=str(other), state=loaded["state"], replace=False)
    for file in (path, other):
        assert json.loads(file.read_text())["mood"] == "fine"
        assert len(json.loads(file.read_text())["classes"]) == 4
    assert "called something.frn.json" in engine.ask("save", path=str(tmp_path / "z"), state=state).reason
    assert "cannot be read" in engine.ask("load", path=str(tmp_path / "away.frn.json")).reason


def test_results_are_written_with_the_bytes_of_odd_names(bare: Engine, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    bare.done("write", path=str(path), text=os.fsdecode(b"caf\xe9.jpg,wren\n"), replace=False)
    assert path.read_bytes() == b"caf\xe9.jpg,wren\n"
    assert "is there already" in bare.ask("write", path=str(path), text="", replace=False).reason
    bare.done("write", path=str(path), text="ü", replace=True)
    assert path.read_text(encoding="utf-8") == "ü"
    assert "cannot be written" in bare.ask("write", path="/proc/none/x", text="", replace=False).reason


def test_a_journal_is_found_once_its_app_is_gone(
    engine: Engine, members: dict[str, list[Path]], state_folder: Path
) -> None:
    state = engine.state(first(members, 1))
    engine.done("journal", state=state, model="conv4", project=None, adding={"x": ["/x/1.jpg"]}, saved=False)
    assert set(engine.done("recover")) == {"id", "end"}  # this process lives
    (file,) = state_folder.iterdir()
    entry = json.loads(file.read_text())
    for process, time, name in ((2**22 + 5, 5.0, "old"), (2**22 + 6, 50.0, "new"), (os.getpid(), 500.0, "ours")):
        copy = {**entry, "process": process, "time": time, "project": name}
        (state_folder / f"journal-{process}.json").write_text(json.dumps(copy))
    (state_folder / "journal-7.json").write_text("{")
    found = engine.done("recover")
    assert (found["project"], found["model"]) == ("new", "conv4")
    assert (found["state"], found["adding"]) == (state, {"x": ["/x/1.jpg"]})
    engine.done("recover", discard=True)
    assert set(engine.done("recover")) == {"id", "end"}
    assert file.exists()
    engine.done("recover", discard=True, own=True)
    assert not file.exists()


def test_what_is_saved_leaves_no_journal(engine: Engine, state_folder: Path) -> None:
    state = engine.state({"x": []})
    engine.done("journal", state=state, model="conv4", project="/x.frn.json", saved=False)
    assert len([*state_folder.iterdir()]) == 1
    engine.done("journal", state=state, model="conv4", project="/x.frn.json", saved=True)
    assert [*state_folder.iterdir()] == []


# Lanes


def test_lanes_work_side_by_side_and_drop_what_is_cancelled_while_it_waits(until: Callable[..., None]) -> None:
    from frn_tui.engine.server import Server

    sent: list[Message] = []
    gate = threading.Event()

    def blocked(request: Request) -> Message:
        gate.wait(5)
        return {}

    handlers: dict[str, Handler] = {op: blocked if queue == "compute" else lambda r: {} for op, queue in QUEUES.items()}
    server = Server(handlers, lambda message: sent.append(dict(message)))
    for number, op in ((1, "embed"), (2, "query"), (3, "query"), (4, "scan")):
        server.receive({"id": number, "op": op})
    server.receive({"op": "cancel", "target": 2})
    server.receive({"id": 5, "op": "nonsense"})
    until(lambda: len(sent) == 3)
    ends = {message["id"]: message["end"] for message in sent}
    assert ends == {2: "cancelled", 4: "done", 5: "failed"}
    gate.set()
    until(lambda: len(sent) == 5)
    assert [message["id"] for message in sent[3:]] == [1, 3]
    server.run([b"no message\n"])


@pytest.fixture
def until() -> Callable[..., None]:
    def until(holds: Callable[[], bool]) -> None:
        pause = threading.Event()
        for _ in range(500):
            if holds():
                return
            pause.wait(0.01)
        raise AssertionError("it does not come")

    return until
