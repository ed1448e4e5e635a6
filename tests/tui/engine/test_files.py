"""Exports, projects, results, journals."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from frn_tui.client.protocol import EXISTS, MIRROR
from frn_tui.engine.files import journal
from frn_tui.engine.operations import build_handlers

from frn.estimator.loading import load_classifier
from frn.images.opening import open_image
from frn.inference.classifier import Prediction
from frn.system.processes.locks import Lock
from tests.tui.engine.conftest import Engine, first


def test_exported_classifier_gives_the_same_answers_as_the_app(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    engine.done("export", path=str(out))  # frn wrote it
    foreign = tmp_path / "notes.txt"
    foreign.write_text("mine")
    assert "already exists" in engine.ask("export", path=str(foreign)).reason
    assert "is a folder" in engine.ask("export", path=str(tmp_path), replace=True).reason
    monkeypatch.chdir(tmp_path)
    needed = engine.done("export", path=str(tmp_path / "page"), what="page")
    assert "npm pack onnxruntime-web" in needed
    assert "best subject" not in needed
    assert (tmp_path / "page" / "index.html").exists()


def test_a_project_stores_the_chosen_head_and_reuses_it(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, path = engine.state(first(members, 3)), tmp_path / "x.frn.json"
    engine.done("classes", state=state)
    engine.done("save", path=str(path), state=state)
    assert json.loads(path.read_text())["head"]["alpha"]
    again = Engine(build_handlers(os.getpid()))
    opened = again.done("load", path=str(path))
    loaded, _ = opened["state"], again.done("open_model", model="conv4")
    assert not opened["has_changed"]

    def chosen(*_: Any) -> Any:
        raise AssertionError("it is chosen again")

    monkeypatch.setattr("frn.inference.enrollment.tune_classes", chosen)
    again.ask("embed", paths=[photo["path"] for entry in loaded["classes"] for photo in entry["supports"]])
    assert again.done("classes", state=loaded)["unread"] == []
    with pytest.raises(AssertionError, match="internal"):
        again.done("classes", state=again.state(first(members, 2)))  # other classes


def test_a_project_is_unchanged_by_a_round_trip_and_keeps_unknown_fields(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    path = tmp_path / "x.frn.json"
    state = engine.state(first(members, 2), 0.5)
    engine.done("save", path=str(path), state=state, replace=False)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "mood": "fine"}))
    refused = engine.ask("save", path=str(path), state=state, replace=False, origin=str(path))
    assert "was changed by another program" in refused.reason
    assert refused.end["code"] == EXISTS
    loaded = engine.done("load", path=str(path))
    assert loaded["model"] == "conv4"
    assert [entry["name"] for entry in loaded["state"]["classes"]] == [*members]
    assert loaded["state"]["classes"][0]["supports"][0]["key"] == state["classes"][0]["supports"][0]["key"]
    loaded["state"]["classes"].pop()
    path.chmod(0o600)
    assert engine.ask("save", path=str(path), state=state).end["code"] == EXISTS  # classes of another project
    engine.done("save", path=str(path), state=loaded["state"], replace=False, origin=str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    other = tmp_path / "y.frn.json"
    engine.done("save", path=str(other), state=loaded["state"], replace=False, origin=str(path))
    engine.done("save", path=str(tmp_path / "new.frn.json"), state=state)
    assert "mood" not in json.loads((tmp_path / "new.frn.json").read_text())
    for file in (path, other):
        assert json.loads(file.read_text())["mood"] == "fine"
        assert len(json.loads(file.read_text())["classes"]) == 4
    copied = tmp_path / "copy.frn.json"
    copied.write_bytes(path.read_bytes())
    save: dict[str, Any] = {"state": loaded["state"], "replace": False, "origin": str(path)}
    assert engine.ask("save", path=str(copied), **save).end["code"] == EXISTS  # equal, but not the opened one
    started_again = Engine(build_handlers(os.getpid()))  # it does not know what was loaded
    started_again.done("open_model", model="conv4")
    assert started_again.ask("save", path=str(path), **save).end["code"] == EXISTS
    started_again.done("save", path=str(path), **{**save, "replace": True})
    assert json.loads(path.read_text())["mood"] == "fine"
    assert "must end in .frn.json" in engine.ask("save", path=str(tmp_path / "z"), state=state).reason
    assert "cannot be read" in engine.ask("load", path=str(tmp_path / "away.frn.json")).reason


def test_results_keep_the_bytes_of_unusual_names(bare: Engine, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    bare.done("write", path=str(path), text=os.fsdecode(b"caf\xe9.jpg,wren\n"), replace=False)
    assert path.read_bytes() == b"caf\xe9.jpg,wren\n"
    refused = bare.ask("write", path=str(path), text="", replace=False)
    assert "already exists" in refused.reason
    assert refused.end["code"] == EXISTS
    bare.done("write", path=str(path), text="ü", replace=True)
    assert path.read_text(encoding="utf-8") == "ü"
    assert "is a folder" in bare.ask("write", path=str(tmp_path), text="", replace=True).reason
    assert "cannot be written" in bare.ask("write", path="/proc/none/x", text="", replace=False).reason


def test_a_journal_is_found_once_its_app_is_gone(
    engine: Engine, members: dict[str, list[Path]], state_folder: Path
) -> None:
    state = engine.state(first(members, 1))
    engine.done("journal", state=state, model="conv4", project=None, place=None, adding={"x": ["/x/1.jpg"]})
    assert engine.done("recover") is None  # this process is alive
    (file,) = state_folder.glob("journal-*.json")
    entry = json.loads(file.read_text())
    assert (entry["format"], entry["version"]) == ("frn-journal", 1)  # a different version is not read
    living = Lock(state_folder / "journal-x.lock")
    assert living.acquire()
    for process, when, name in ((2**22 + 5, 5.0, "old"), (2**22 + 6, 50.0, "new"), ("x", 500.0, "another's")):
        copy = {**entry, "time": when, "project": name}
        (state_folder / f"journal-{process}.json").write_text(json.dumps(copy))
    (state_folder / "journal-7.json").write_text("{")
    found = engine.done("recover")
    assert (found["project"], found["model"]) == ("new", "conv4")
    assert {**found["state"], **state} == found["state"]
    assert found["adding"] == {"x": ["/x/1.jpg"]}
    engine.done("discard", journal=found["journal"])
    older = engine.done("recover")
    assert older["project"] == "old"  # unsaved work from a different app is not touched
    engine.done("discard", journal=older["journal"])
    assert engine.done("recover") is None
    assert (state_folder / "journal-x.json").exists()
    living.release()
    engine.done("discard", journal=str(file))  # a lock held by a running app
    assert file.exists()
    engine.done("discard", journal=None)
    assert not file.exists()


def test_saving_names_the_project_in_the_journal(engine: Engine, state_folder: Path, tmp_path: Path) -> None:
    state, path = engine.state({"x": []}), str(tmp_path / "x.frn.json")
    engine.done("save", path=path, state=state, replace=False)
    assert [*state_folder.glob("journal-*.json")] == []
    adding = {"jay": ["/1.jpg"]}
    engine.done("journal", state=state, model="conv4", project=None, place="/photos", adding=adding)
    engine.done("save", path=path, state=state, replace=False, origin=path)  # the app is killed here
    (journal,) = state_folder.glob("journal-*.json")
    entry = json.loads(journal.read_text())
    assert (entry["project"], entry["place"], entry["adding"]) == (path, None, adding)
    assert not Lock(journal.with_suffix(".lock")).acquire()


def test_project_with_mirror_images_gives_the_same_answers_everywhere(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    query, path = members["moth 42"][7], tmp_path / "moths.frn.json"
    state = engine.state(first(members, 2))
    engine.done("classes", state=state)
    plain = engine.ask("query", paths=[str(query)]).told("answer")[0]["scores"]
    opened = engine.done("open_model", model=f"conv4{MIRROR}")
    engine.state(first(members, 2))
    engine.done("classes", state=state)
    both = engine.ask("query", paths=[str(query)]).told("answer")[0]["scores"]
    assert both != plain
    engine.done("save", path=str(path), state=state)
    assert json.loads(path.read_text())["model"]["tta"] == "hflip"
    loaded = engine.done("load", path=str(path))
    assert (loaded["model"], loaded["sha256"]) == (f"conv4{MIRROR}", opened["sha256"])
    classifier, skipped = load_classifier(path)
    assert not skipped
    ((_, answer),) = classifier.classify([query])
    assert isinstance(answer, Prediction)
    assert max(answer.probabilities.values()) == pytest.approx(both[0]["probability"], abs=1e-4)
    engine.done("open_model", model="conv4")
    engine.done("classes", state=state)
    engine.done("save", path=str(path), state=state, replace=True)
    assert "tta" not in json.loads(path.read_text())["model"]


def test_a_project_with_second_looks_gets_the_same_answers_in_the_app(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    queries = [path for paths in members.values() for path in paths[3:]]
    path, state = tmp_path / "moths.frn.json", engine.state(first(members, 3))
    assert engine.done("open_model", model="conv4+auto")["head"] == "frn"
    for op in ("classes", "choose_search"):
        assert "looks at whole photos again" in engine.ask(op, state={**state, "search": "one"}).reason
    reports = engine.done("classes", state=state)
    assert reports["unread"], "the examples have not been seen in views"
    engine.done("embed", paths=reports["unread"])
    expected = engine.done("classes", state=state)["expected"]
    engine.done("save", path=str(path), state=state)
    assert json.loads(path.read_text())["model"]["tta"] == "auto"
    assert engine.done("load", path=str(path))["model"] == "conv4+auto"
    classifier, notes = load_classifier(path)
    assert str(notes[-1]) in expected
    mine: Any = classifier
    opened: Any = engine.handlers["open_model"]
    for sure in (0.0, 0.7, 2.0):
        for second in (mine.second, opened.__self__.second):
            second.sure = sure
        answers = engine.ask("query", paths=list(map(str, queries))).told("answer")
        shown = [max(score["probability"] for score in answer["scores"]) for answer in answers]
        predictions = [each for _, each in classifier.classify(queries) if isinstance(each, Prediction)]
        (alone,) = engine.ask("query", paths=[str(queries[0])]).told("answer")
        why = engine.done("explain", path=str(queries[0]))
        assert alone["views"] == why["views"] == {0.0: False, 2.0: True}.get(sure, why["views"])
        (grid,) = {np.shape(map_) for map_ in alone["maps"].values()}
        assert grid == tuple(why["grid"])
        assert shown == pytest.approx([max(each.probabilities.values()) for each in predictions], abs=1e-4)


def test_recovery_waits_for_the_engine_of_a_killed_app(engine: Engine, state_folder: Path) -> None:
    """The engine holds the lock; on a busy machine it may end after the next app has started."""
    engine.done("journal", state={"classes": []}, model="conv4", project="x", place=None, adding={})
    (file,) = state_folder.glob("journal-*.json")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    file.rename(state_folder / f"journal-{gone.pid}.json")
    lock = Lock(state_folder / f"journal-{gone.pid}.lock")
    assert lock.acquire()
    threading.Timer(0.5, lock.release).start()
    assert engine.done("recover")["project"] == "x"


def test_recovery_does_not_wait_for_an_engine_that_keeps_running(
    engine: Engine, state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.done("journal", state={"classes": []}, model="conv4", project="x", place=None, adding={})
    (file,) = state_folder.glob("journal-*.json")
    running = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    for process, patience in ((running.pid, 1e9), (2**22 + 5, 0.2)):
        file = file.rename(state_folder / f"journal-{process}.json")
        lock = Lock(state_folder / f"journal-{process}.lock")
        assert lock.acquire()
        monkeypatch.setattr(journal, "PATIENCE", patience)
        assert engine.done("recover") is None
        lock.release()
    running.communicate(b"\n")
    assert running.returncode == 0


def test_an_app_holds_only_the_lock_of_its_open_project(bare: Engine, tmp_path: Path) -> None:
    other = Engine(build_handlers(os.getpid() + 1))
    first, second = str(tmp_path / "a.frn.json"), str(tmp_path / "b.frn.json")
    for path, held in ((first, [True, False]), (second, [False, True]), (None, [False, False])):
        bare.done("lock", path=path)
        found = [other.done("holder", path=each) for each in (first, second)]
        assert found == [os.getpid() if is_held else None for is_held in held]
        assert [bare.done("holder", path=each) for each in (first, second)] == [None, None]
    bare.done("lock", path=first)
    other.done("lock", path=first)
    assert bare.done("holder", path=first) == os.getpid() + 1
