"""Project files: they are read back as written, nothing is lost, and damage gives a one-line error."""

import json
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.projects import project
from frn.projects.project import ModelReference, Project, is_project, load_project, save_project
from frn.projects.session import ClassEntry, State, Support

MODEL = ModelReference("conv4", "ab" * 32, EvaluationTransform(size=84, resize=92))


def state(folder: Path) -> State:
    jay = ClassEntry(
        3, 'jay 🐦 "ß"', (Support(folder / "a photo.jpg", "k1", 10, 11), Support(folder.parent / "b.png", "k2", 1, 2))
    )
    return State((jay, ClassEntry(5, "empty")), threshold=0.25, next_id=9)


def test_saved_settings_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "my birds.frn.json"
    saved = save_project(path, Project(MODEL, state(tmp_path)))
    loaded = load_project(path)
    assert (loaded.model, loaded.state.threshold, loaded.state.next_id) == (MODEL, 0.25, 9)
    assert [e.name for e in loaded.state.classes] == ['jay 🐦 "ß"', "empty"]
    for ours, theirs in zip(loaded.state.classes[0].supports, state(tmp_path).classes[0].supports, strict=True):
        assert ours.path.resolve() == theirs.path.resolve()
        assert (ours.key, ours.size, ours.mtime_ns) == (theirs.key, theirs.size, theirs.mtime_ns)
    assert saved.stamp == path.read_bytes()
    text = path.read_text()
    assert '"path": "a photo.jpg"' in text
    assert '"path": "../b.png"' in text
    assert str(tmp_path) not in text


def test_new_classes_get_unused_numbers_even_if_the_counter_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "x.frn.json"
    save_project(path, Project(MODEL, state(tmp_path)))
    document = json.loads(path.read_text())
    del document["next_id"]
    path.write_text(json.dumps(document))
    assert load_project(path).state.next_id == 6


def test_a_project_can_be_moved_with_its_photos(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    save_project(tmp_path / "here" / "x.frn.json", Project(MODEL, state(tmp_path / "here")))
    (tmp_path / "here").rename(tmp_path / "there")
    loaded = load_project(tmp_path / "there" / "x.frn.json")
    assert loaded.state.classes[0].supports[0].path == tmp_path / "there" / "a photo.jpg"


def test_a_name_that_is_not_utf8_is_kept(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9.jpg")
    entry = ClassEntry(1, "x", (Support(odd, "k", 1, 1),))
    save_project(tmp_path / "x.frn.json", Project(MODEL, State((entry,))))
    assert load_project(tmp_path / "x.frn.json").state.classes[0].supports[0].path == odd


def test_unknown_keys_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.frn.json"
    save_project(path, Project(MODEL, state(tmp_path)))
    document = json.loads(path.read_text())
    document["colour"] = "blue"
    document["model"]["note"] = "m"
    document["classes"][0]["icon"] = "i"
    document["classes"][0]["images"][1]["stars"] = 5
    path.write_text(json.dumps(document))
    save_project(path, load_project(path))
    again = json.loads(path.read_text())
    assert (again["colour"], again["model"]["note"], again["classes"][0]["icon"]) == ("blue", "m", "i")
    assert again["classes"][0]["images"][1]["stars"] == 5


def test_concurrent_save_is_not_overwritten_and_the_backup_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.frn.json"
    first = save_project(path, Project(MODEL, State()))
    old = path.read_bytes()
    second = save_project(path, Project(MODEL, state(tmp_path), first.document, first.stamp))
    assert path.with_name("x.frn.json.bak").read_bytes() == old
    with pytest.raises(FrnError, match="was changed by another program"):
        save_project(path, Project(MODEL, State(), first.document, first.stamp))
    with pytest.raises(FrnError, match="already exists"):
        save_project(path, Project(MODEL, State()))
    assert path.read_bytes() == second.stamp
    save_project(path, Project(MODEL, State()), replace=True)
    assert path.with_name("x.frn.json.bak").read_bytes() == second.stamp


def test_concurrent_first_save_succeeds_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.frn.json"

    def slowly(source: str, target: str) -> None:
        time.sleep(0.05)
        replace_file(source, target)

    def save(number: int) -> bool:
        try:
            save_project(path, Project(MODEL, State(next_id=number)))
        except FrnError as error:
            return error.code != "exists"
        return True

    replace_file = os.replace
    monkeypatch.setattr(os, "replace", slowly)
    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(save, range(6))) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_failed_write_leaves_the_old_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.frn.json"
    saved = save_project(path, Project(MODEL, State()))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FrnError, match="No space left on device"):
        save_project(path, Project(MODEL, state(tmp_path), saved.document, saved.stamp))
    assert path.read_bytes() == saved.stamp
    with pytest.raises(FrnError, match=r"a project must end in \.frn\.json"):
        save_project(tmp_path / "x.json", Project(MODEL, State()))


def harm(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: document.update(changes)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (harm(version=3), "of version 3; this program reads up to 2. Install a newer frn"),
        (harm(version="x"), "with an unknown version"),
        (harm(format="other"), "is JSON, but not a project"),
        (harm(threshold=7), "the threshold must be a number between 0 and 1"),
        (harm(threshold=[]), "damaged project"),
        (harm(classes=3), "damaged project"),
        (harm(model={}), "damaged project .'id' is missing"),
        (lambda d: d["model"].update(tta="turned upside down twice"), r"tta is turned upside down …\)"),
        (harm(model={"id": 3, "sha256": "", "preprocess": {"size": 84}}), "3 is not text"),
        (lambda d: d["classes"][0].update(name=""), "a class needs a name"),
        (lambda d: d["classes"][1].update(name=d["classes"][0]["name"]), "two classes called"),
        (lambda d: d["classes"][1].update(id=3), "two classes with number 3"),
        (lambda d: d["classes"][0]["images"][0].update(key="k2"), "two images with key 'k2'"),
        (lambda d: d["classes"][0]["images"][0].update(path="a\0b"), "a path that contains a NUL"),
        (lambda d: d["classes"][0]["images"][0].update(path_b64="%%"), "damaged project"),
        (lambda d: d["classes"][0]["images"][0].update(path="\ud800.jpg"), "damaged project"),
    ],
)
def test_damage_gives_a_one_line_error(tmp_path: Path, damage: Callable[[dict[str, Any]], object], reason: str) -> None:
    path = tmp_path / "x.frn.json"
    save_project(path, Project(MODEL, state(tmp_path)))
    document = json.loads(path.read_text())
    damage(document)
    path.write_text(json.dumps(document))
    with pytest.raises(FrnError, match=reason) as caught:
        load_project(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"null"])
def test_invalid_json_is_reported_with_the_backup(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.frn.json"
    path.write_bytes(content)
    path.with_name("x.frn.json.bak").write_text("{}")
    with pytest.raises(FrnError, match=r"is not a project: it is not JSON.*x.frn.json.bak|is JSON, but not a project"):
        load_project(path)
    with pytest.raises(FrnError, match="cannot be read"):
        load_project(tmp_path / "none.frn.json")


def test_features_from_a_different_model_are_refused() -> None:
    with pytest.raises(
        FrnError, match=r"x.frn.json: was made with conv4 \(abababab\), but mine is a different model \(cdcdcdcd\)"
    ):
        MODEL.check("cd" * 32, Path("x.frn.json"), "mine")
    MODEL.check("ab" * 32, Path("x.frn.json"), "conv4")


def test_project_is_recognised_by_its_name() -> None:
    assert is_project(Path("a.FRN.json"))
    assert not is_project(Path("a.json"))


@pytest.mark.parametrize("number", ["1e999", "NaN", "-1e999"])
@pytest.mark.parametrize("field", ["next_id", "threshold", "id", "size", "mtime_ns"])
def test_invalid_number_in_a_project_gives_a_one_line_error(tmp_path: Path, field: str, number: str) -> None:
    image = '{"path": "a.png", "key": "k", "size": 1, "mtime_ns": 1}'
    model = '{"id": "conv4", "sha256": "0", "preprocess": {"size": 32}}'
    text = (
        f'{{"format": "frn-project", "version": 1, "threshold": 0.5, "next_id": 2, "model": {model}, '
        f'"classes": [{{"id": 1, "name": "a", "images": [{image}]}}]}}'
    )
    path = tmp_path / "x.frn.json"
    path.write_text(text)
    load_project(path)
    path.write_text(re.sub(rf'"{field}": [0-9.]+', f'"{field}": {number}', text))
    with pytest.raises(FrnError, match="is a damaged project") as caught:
        load_project(path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_project_is_readable_text_indented_by_one_space(tmp_path: Path) -> None:
    path = tmp_path / "x.frn.json"
    save_project(path, Project(MODEL, state(tmp_path)))
    text = path.read_text(encoding="utf-8")
    assert text.startswith('{\n "format": "frn-project",\n "version": 2,\n "model": {\n  "id": "conv4",\n')
    assert 'jay 🐦 \\"ß\\"' in text
    assert "others" not in json.loads(text)
    assert "tta" not in json.loads(text)["model"]
    save_project(path, Project(MODEL, state(tmp_path), {"note": "\ud800"}), replace=True)
    assert path.read_text().startswith('{\n "note": "\\ud800",\n "format"')


def test_other_photos_are_saved_and_keep_their_unknown_keys(tmp_path: Path) -> None:
    path, other = tmp_path / "x.frn.json", Support(tmp_path / "o.jpg", "k9", 5, 6)
    save_project(path, Project(MODEL, State(others=(other,))))
    document = json.loads(path.read_text())
    assert document["others"] == [{"path": "o.jpg", "key": "k9", "size": 5, "mtime_ns": 6}]
    document["others"][0]["stars"] = 3
    path.write_text(json.dumps(document))
    loaded = load_project(path)
    assert loaded.state.others == (other,)
    save_project(path, replace(loaded, state=State(others=(replace(other, size=7),))))  # it was replaced
    assert json.loads(path.read_text())["others"] == [{**document["others"][0], "size": 7}]
    save_project(path, Project(MODEL, State(), load_project(path).document), replace=True)
    assert json.loads(path.read_text())["others"] == []
    document["others"] *= 2
    path.write_text(json.dumps(document))
    with pytest.raises(FrnError, match="it has two other images with key 'k9'"):
        load_project(path)


@pytest.mark.parametrize("version", [0, -1, None, "1"])
def test_versions_start_at_one(tmp_path: Path, version: object) -> None:
    path = tmp_path / "x.frn.json"
    path.write_text(json.dumps({"format": "frn-project", "version": version}))
    with pytest.raises(FrnError, match=re.escape(f"is a project with an unknown version ({version!r}).")):
        load_project(path)


def test_a_model_is_stored_by_its_name_or_its_path_from_the_project(tmp_path: Path) -> None:
    extractor: Any = SimpleNamespace(plain_sha256="ab", transform=MODEL.preprocess, tta="hflip")
    named = ModelReference.of("conv4", extractor, tmp_path)
    assert named == ModelReference("conv4", "ab", MODEL.preprocess, "hflip")
    assert named.locate(tmp_path) == "conv4"
    own = ModelReference.of(str(tmp_path / "models" / "m.onnx"), extractor, tmp_path / "projects")
    assert own.id == "../models/m.onnx"
    assert own.locate(tmp_path / "projects") == str(tmp_path / "projects" / ".." / "models" / "m.onnx")
    with pytest.raises(FrnError, match="a project cannot refer to a model whose path is not valid text"):
        ModelReference.of(os.fsdecode(b"\xff.onnx"), extractor, tmp_path)


def test_a_project_in_a_linked_folder_finds_photos_outside_it(tmp_path: Path) -> None:
    photo, real = tmp_path / "pics" / "a.jpg", tmp_path / "real" / "deep"
    photo.parent.mkdir()
    photo.write_bytes(b"a")
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "linked pics").symlink_to(photo.parent)
    for folder in (tmp_path / "link", real, tmp_path / "pics"):
        for named in (photo, tmp_path / "link" / ".." / ".." / "pics" / "a.jpg", tmp_path / "linked pics" / "a.jpg"):
            written = project.write_path(named, folder)
            assert project.read_path(written, folder).samefile(photo), (folder, named, written)
    assert project.write_path(photo, real) == {"path": "../../pics/a.jpg"}
    assert project.write_path(tmp_path / "linked pics" / "a.jpg", real) == {"path": "../../linked pics/a.jpg"}


def test_saving_the_same_content_again_makes_no_backup(tmp_path: Path) -> None:
    path = tmp_path / "x.frn.json"
    saved = save_project(path, Project(MODEL, State()))
    save_project(path, saved)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.frn.json"]


def test_a_threshold_of_version_1_is_reported_and_not_used(tmp_path: Path) -> None:
    path = tmp_path / "x.frn.json"
    save_project(path, Project(MODEL, state(tmp_path)))
    assert load_project(path).notes == ()
    path.write_text(path.read_text(encoding="utf-8").replace('"version": 2', '"version": 1'), encoding="utf-8")
    project = load_project(path)
    (note,) = project.notes
    assert note.startswith(f"{path}: its threshold, 25% explained, is of an earlier version and not used.")
    assert project.state.threshold is None
    path.write_text(path.read_text(encoding="utf-8").replace("0.25", "null"), encoding="utf-8")
    assert load_project(path).notes == ()
