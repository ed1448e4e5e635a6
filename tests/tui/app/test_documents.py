"""Documents: opening is not an edit, recovery after a crash, samples, missing photos, bundles, undo."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frn_tui.app import FrnApp
from frn_tui.client.protocol import EXISTS, EngineError
from frn_tui.dialogs.dialogs import AskText, Choose
from frn_tui.dialogs.picker import Picker
from frn_tui.terminal import paths
from textual import events
from textual.keys import _character_to_key

from frn.models.zoo import DEFAULT_MODEL, assets_folder
from tests.tui.conftest import Drive, Driver
from tests.tui.fake_engine import FakeEngine

Lines = Callable[[Any], list[str]]
OPENED = {"jay": 6, "owl": 4, "wren": 5}
SUPPORT = {"path": "/photos/jay/jay-1.jpg", "key": "jay-1.jpg", "size": 1, "mtime_ns": 2}


def left(project: str | None = None, place: str | None = None) -> dict[str, Any]:
    """A journal left by a killed app."""
    classes = [{"id": 1, "name": "finch", "supports": [SUPPORT]}]
    state = {"classes": classes, "threshold": None, "next_id": 2}
    about = {"journal": f"/state/{project}.json", "adding": {}, "time": 1_700_000_000.0}
    return {"state": state, "model": "conv4", "project": project, "place": place, **about}


def title(driver: Driver) -> str:
    return str(getattr(driver.app.screen, "dialog_title", ""))


async def test_opening_a_folder_is_not_an_edit(driver: Driver, fake_engine: FakeEngine, lines: Lines) -> None:
    app = driver.app
    assert driver.counts == OPENED
    assert app.controller.session.is_saved
    assert "frn-tui  photos/" in lines(app)[0]
    await driver.keys("u")
    assert driver.counts == OPENED
    await app.controller.journal()
    assert not fake_engine.kept
    await driver.keys("A")
    await driver.type("finch")
    assert "● photos/" in lines(app)[0]
    await app.controller.journal()
    assert fake_engine.kept
    assert fake_engine.kept["place"] == "/photos"
    await driver.keys("u", "ctrl+q")
    assert app._exit  # nothing to classify


async def test_photos_being_added_survive_termination(driver: Driver, fake_engine: FakeEngine) -> None:
    controller, recovery = driver.app.controller, driver.app.recovery
    with controller.begun({"finch": ["/home/finch-1.jpg"]}):
        await recovery.keep_at_the_end()
    assert fake_engine.kept
    assert fake_engine.kept["adding"] == {"finch": ["/home/finch-1.jpg"]}
    await recovery.keep_at_the_end()
    assert not fake_engine.kept


async def test_edit_while_a_folder_opens_is_kept(driver: Driver) -> None:
    controller = driver.app.controller
    embed = controller._embed

    async def slowly(*arguments: Any) -> Any:
        controller.session.create("finch")
        return await embed(*arguments)

    controller._embed = slowly  # type: ignore[assignment, method-assign]
    await driver.app.workspace.project_bar.open_place("/photos")
    assert driver.counts == {"finch": 0, **OPENED}
    assert not controller.session.is_saved


@pytest.mark.parametrize(
    ("found", "asked"), [(left(), False), (left(place="/photos"), True), (left(project="/home/other.frn.json"), False)]
)
async def test_unsaved_work_is_not_offered_before_named_files(
    drive: Drive, fake_engine: FakeEngine, found: dict[str, Any], asked: bool
) -> None:
    fake_engine.left = found
    driver = await drive()
    app = driver.app
    await driver.until(lambda: driver.counts == OPENED)
    if asked:
        await driver.until(lambda: "Unsaved work of /photos, 2023-11-14" in title(driver))
        assert "recover 1 class (finch), 1 photo" in str(app.screen.options)  # type: ignore[attr-defined]
        await driver.keys("down", "down", "enter")
    else:
        await driver.idle()
        assert app.screen is app.workspace
        assert any("unsaved work" in note for note in driver.notes)
    await driver.pilot.press("ctrl+o")
    await driver.until(lambda: isinstance(app.screen, Choose))
    await driver.type("unsaved work")
    assert driver.counts == {"finch": 1}
    assert not app.controller.session.is_saved
    assert not app.controller.session.can_undo  # one undo removed all classes
    assert fake_engine.left == {}


async def test_work_is_recovered_although_its_model_no_longer_exists(drive: Drive, fake_engine: FakeEngine) -> None:
    fake_engine.left = {**left(), "model": "/away/features.onnx"}
    fake_engine.gone = {"/away/features.onnx"}
    driver = await drive(app=lambda place, **options: FrnApp(None, **options))
    await driver.until(lambda: "an unnamed project" in title(driver))
    await driver.pilot.press("enter")
    await driver.until(lambda: driver.app.screen is driver.app.workspace)
    await driver.idle()
    assert fake_engine.left == {}
    assert driver.app.controller.model_name == fake_engine.model != "/away/features.onnx"
    assert not driver.app.controller.session.is_saved


@pytest.mark.parametrize("option", ["recover", "discard"])
async def test_recovering_one_app_keeps_the_journal_of_another(
    drive: Drive, fake_engine: FakeEngine, option: str
) -> None:
    fake_engine.left, fake_engine.left_before = left("/home/new.frn.json"), [left("/home/old.frn.json")]
    driver = await drive(app=lambda place, **options: FrnApp(None, **options))
    await driver.until(lambda: "new.frn.json" in title(driver))
    await driver.pilot.press(*option, "enter")
    if option == "discard":
        await driver.until(lambda: "old.frn.json" in title(driver))
        await driver.pilot.press("escape")
    await driver.until(lambda: driver.app.screen is driver.app.workspace)
    await driver.idle()
    assert fake_engine.left["project"] == "/home/old.frn.json"
    await driver.pilot.press("ctrl+o")
    await driver.until(lambda: isinstance(driver.app.screen, Choose))
    assert "unsaved work of /home/old.frn.json" in str(driver.app.screen.options)  # type: ignore[attr-defined]


async def test_samples_are_replaced_by_the_first_class_and_restored_by_undo(driver: Driver, lines: Lines) -> None:
    app = driver.app
    await app.workspace.controller.open_folder(None, (await app.workspace.controller.scan("/photos"))["classes"])
    await driver.idle()
    assert "frn-tui  samples" in lines(app)[0]
    await driver.keys("plus")  # an edit makes the samples the user's own classes
    for first in ("class", "folder", "photos"):
        if first == "class":
            await driver.keys("A")
            await driver.type("finch")
            assert driver.counts == {"finch": 0}
        elif first == "folder":
            app.workspace.classes_pane.add(["/photos"])
            await driver.until(lambda: len(driver.counts) == 3)
            assert "● unsaved" in lines(app)[0]
        else:
            app.workspace.classes_pane.add(["/queries/swan-1.jpg"])
            await driver.idle()
            assert driver.counts == {"queries": 1}
        while app.controller.session.can_undo:
            await driver.keys("u")
        assert driver.counts == OPENED
        assert "frn-tui  samples" in lines(app)[0]


async def test_samples_replaced_while_they_are_opened_are_not_classified(
    fake_engine: FakeEngine, driver_class: type[Driver], private_state: Path
) -> None:
    samples = str(assets_folder() / "samples")
    files = {f"{samples}/shells": ["cone"], f"{samples}/shells/cone": ["cone-1.jpg"], f"{samples}/queries": ["x-1.jpg"]}
    fake_engine.FOLDERS = {**FakeEngine.FOLDERS, **files}  # type: ignore[misc]
    fake_engine.late["embed"] = asyncio.Event()
    app = FrnApp(engine=fake_engine)
    async with app.run_test(size=(140, 40)) as pilot:
        driver = driver_class(app, pilot)
        await driver.until(lambda: app.controller.shows_samples)
        app.controller.create("finch")
        fake_engine.late["embed"].set()
        await driver.idle()
        assert driver.counts == {"finch": 0}
        assert app.controller.query.answers == []
        assert not app.controller.query.waiting


async def test_new_and_save_as_work(driver: Driver, fake_engine: FakeEngine) -> None:
    app = driver.app
    await driver.keys("S")
    assert app.screen.query_one("Input").value == "photos.frn.json"  # type: ignore[attr-defined]
    await driver.type("/home/one")
    await driver.keys("S")
    await driver.type("/home/two.frn.json")
    assert [call["path"] for call in fake_engine.saved] == ["/home/one.frn.json", "/home/two.frn.json"]
    assert app.controller.title == "two.frn.json"
    app.controller.session.create("finch")
    await driver.pilot.press("ctrl+n")
    await driver.until(lambda: "unsaved" in title(driver))
    await driver.type("cancel")
    assert driver.counts == {**OPENED, "finch": 0}
    await driver.keys("u", "ctrl+n")
    assert driver.counts == {}
    assert app.controller.title == "unsaved"
    await driver.keys("ctrl+o")
    assert "/home/two.frn.json" in str(app.screen.options)  # type: ignore[attr-defined]


async def test_missing_photos_are_counted_reported_and_found_again(
    drive: Drive, fake_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    support = {"path": "/p/jay-2.jpg", "key": "jay-2.jpg", "size": 1, "mtime_ns": 1}
    other = {**SUPPORT, "path": "/p/jay-1.jpg"}
    here = {"path": "/photos/jay/jay-3.jpg", "key": "jay-3.jpg", "size": 1, "mtime_ns": 2}
    state = {"classes": [{"id": 4, "name": "jay", "supports": [other, support, here]}], "threshold": None, "next_id": 5}
    found = {"state": state, "model": DEFAULT_MODEL, "sha256": f"sha of {DEFAULT_MODEL}"}
    monkeypatch.setattr(fake_engine, "op_load", lambda tell, path: found)
    fake_engine.away = {"/p/jay-1.jpg", "/p/jay-2.jpg"}
    driver = await drive()
    app = driver.app
    fake_engine.known = {"jay-1.jpg"}  # its stored features are not used
    await app.workspace.project_bar.open_place("/home/birds.frn.json")
    await driver.idle()
    assert "2 missing (R)" in lines(app)[0]
    assert app.controller.skipped == {"/p/jay-1.jpg", "/p/jay-2.jpg"}
    assert any("2 missing" in line for line in lines(app)[1:])
    app.workspace.ask(["/queries/jay-10.jpg"])
    await driver.idle()
    assert app.controller.query.answer is not None
    assert "scores" in app.controller.query.answer
    assert any("2 photos missing and not used" in note for note in driver.notes)
    await app.workspace.project_bar._relocate("/photos/jay")
    assert app.controller.missing == app.controller.skipped == frozenset()
    (entry,) = app.controller.session.state.classes
    assert [str(one.path) for one in entry.supports] == [f"/photos/jay/jay-{number}.jpg" for number in (1, 2, 3)]
    assert not app.controller.session.is_saved
    await driver.keys("u")
    assert driver.app.controller.session.is_saved
    assert "2 missing (R)" in lines(app)[0]  # the project lists the photos in their old places again
    await driver.keys("ctrl+r")
    assert "missing" not in lines(app)[0]


async def test_project_is_opened_by_its_full_path(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "AT_START", str(tmp_path))
    driver = await drive()
    app = driver.app
    await app.workspace.project_bar.open_place("birds.frn.json")
    assert app.controller.project == app.context.settings.recent[0] == f"{tmp_path}/birds.frn.json"
    await app.workspace.project_bar.open_place("~/birds.frn.json")
    assert app.controller.project == f"{Path.home()}/birds.frn.json"
    await driver.keys("S")
    await driver.type("folder/")
    assert any("folder/: is a folder; choose a file name in it" in note for note in driver.notes)


async def test_bundle_is_written_and_unpacked_at_the_given_paths(driver: Driver, fake_engine: FakeEngine) -> None:
    app = driver.app
    for _ in range(2):
        await driver.keys("e")
        await driver.type("bundle")
        app.screen.query_one("Input").value = "/home/birds.zip"  # type: ignore[attr-defined]
        await driver.pilot.press("enter")
        await driver.until(lambda: fake_engine.written)
    await driver.until(lambda: "already exists" in title(driver))
    await driver.keys("enter")
    assert fake_engine.written == {"/home/birds.zip": "bundle"}
    app.workspace.context.start(app.workspace.project_bar.open_place, "/home/birds.zip")
    await driver.until(lambda: isinstance(app.screen, AskText))
    assert app.screen.query_one("Input").value == "/home/birds"  # type: ignore[attr-defined]
    await driver.keys("enter")
    assert app.controller.project == "/home/birds/birds.frn.json"


async def test_levels_of_folders_ask_which_are_the_classes(driver: Driver) -> None:
    app = driver.app
    app.workspace.context.start(app.workspace.project_bar.open_place, "/genera")
    await driver.until(lambda: title(driver) == "Which folders are the classes?")
    assert app.screen.options == [  # type: ignore[attr-defined]
        "each folder with photos: 2 classes, 10 photos: jay, owl",
        "folders of the first level: 2 classes, 10 photos: corvus, strix",
    ]
    await driver.keys("enter")
    await driver.until(lambda: [entry.name for entry in app.controller.session.state.classes] == ["jay", "owl"])
    await driver.idle()


async def test_undo_covers_the_model_and_the_threshold(driver: Driver, fake_engine: FakeEngine) -> None:
    app, controller = driver.app, driver.app.controller
    before = controller.model_name
    app.context.start(app._change_model, "resnet12")
    await driver.idle()
    await driver.keys("plus")
    assert (controller.model_name, controller.threshold) == ("resnet12", 0.41)
    await driver.keys("u")
    assert (controller.model_name, controller.threshold) == ("resnet12", 0.4)
    await driver.keys("u")
    assert controller.model_name == before
    assert controller.session.is_saved
    await driver.keys("ctrl+r")
    assert controller.model_name == "resnet12"
    assert "redone" in driver.said


async def test_save_and_quit_saves_under_a_name_and_quits(driver: Driver, fake_engine: FakeEngine) -> None:
    app = driver.app
    app.controller.session.create("finch")
    await driver.pilot.press("ctrl+q")
    await driver.until(lambda: isinstance(app.screen, Choose))
    await driver.pilot.press(*"save", "enter")
    await driver.until(lambda: isinstance(app.screen, AskText))
    field = app.screen.query_one("Input")
    field.value = "/home/mine"  # type: ignore[attr-defined]
    await driver.pilot.press("enter")
    await driver.until(lambda: app._exit)
    assert [call["path"] for call in fake_engine.saved] == ["/home/mine.frn.json"]


async def test_a_save_that_fails_does_not_quit(drive: Drive, fake_engine: FakeEngine) -> None:
    def save(tell: object, **arguments: str) -> None:
        raise EngineError("/home/x.frn.json: cannot be written (No space left on device, 9 bytes)")

    fake_engine.op_save = save  # type: ignore[method-assign]
    driver = await drive()
    app = driver.app
    app.controller.project = "/home/x.frn.json"
    app.controller.session.create("finch")
    await driver.pilot.press("ctrl+q")
    await driver.until(lambda: isinstance(app.screen, Choose))
    await driver.pilot.press("enter")
    await driver.idle()
    assert not app._exit
    assert app.screen is app.workspace
    assert not app.controller.session.is_saved


@pytest.mark.parametrize(
    ("chosen", "what", "run"),
    [
        ("from photo", "classifier", "InferenceSession(/home/x)"),
        ("page", "page", "python -m http.server --directory /home/x"),
    ],
)
async def test_export_format_is_chosen_and_replaces_only_on_request(
    drive: Drive, fake_engine: FakeEngine, chosen: str, what: str, run: str
) -> None:
    asked: list[tuple[str, str, bool]] = []

    def export(tell: object, path: str, what: str, replace: bool) -> str:
        asked.append((path, what, replace))
        if not replace:
            raise EngineError(f"{path}: is in the way", code=EXISTS)
        return ""

    fake_engine.op_export = export  # type: ignore[method-assign]
    driver = await drive()
    await driver.keys("e")
    await driver.type(chosen)
    await driver.until(lambda: isinstance(driver.app.screen, AskText))
    field = driver.app.screen.query_one("Input")
    field.value = "/home/x"  # type: ignore[attr-defined]
    await driver.pilot.press("enter")
    await driver.until(lambda: isinstance(driver.app.screen, Choose))
    await driver.pilot.press("enter")
    await driver.idle()
    assert asked == [("/home/x", what, False), ("/home/x", what, True)]
    assert run in driver.said


def send(driver: Driver, *keys: str) -> None:
    """Send keys as a terminal does: all at once, without waiting."""
    for key in keys:
        character = key if len(key) == 1 else None
        name = _character_to_key(key) if character else key
        driver.app.post_message(events.Key(name, character if character != " " else " "))


async def test_format_and_path_typed_ahead_arrive(driver: Driver, fake_engine: FakeEngine) -> None:
    driver.app.workspace.ask(["/queries"])
    await driver.idle()
    await driver.keys("L")
    send(driver, "e", "down", "enter", *["ctrl+u"], *"/out/my results.jsonl", "enter")
    await driver.until(lambda: fake_engine.written)
    ((path, text),) = fake_engine.written.items()
    assert path == "/out/my results.jsonl"
    assert text.startswith('{"image"')


async def test_a_path_with_blanks_can_be_typed_into_the_picker_and_marks_nothing(
    drive: Drive, fake_engine: FakeEngine
) -> None:
    fake_engine.FOLDERS = {**FakeEngine.FOLDERS, "/my birds": ["jay-1.jpg", "jay-2.jpg"]}  # type: ignore[misc]
    driver = await drive()
    send(driver, "p", *"/my birds/jay-2.jpg", "enter")
    await driver.until(lambda: driver.app.controller.query.answers)
    assert [answer["path"] for answer in driver.app.controller.query.answers] == ["/my birds/jay-2.jpg"]
    assert not isinstance(driver.app.screen, Picker)
