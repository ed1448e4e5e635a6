"""Keys that no other test presses, and the confirmation of large changes."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frn_tui.client.protocol import EXISTS, EngineError
from frn_tui.dialogs.dialogs import Choose
from frn_tui.dialogs.picker import Picker
from frn_tui.settings.keys import BOUND
from frn_tui.settings.settings import Settings
from textual.app import App

from tests.tui.conftest import Drive, Driver
from tests.tui.fake_engine import FakeEngine


async def test_m_assigns_a_class_by_name(driver: Driver) -> None:
    workspace = driver.app.workspace
    workspace.classes_pane.list.focus()
    await driver.keys("2", "m", "escape")  # no photo to assign
    assert driver.counts == {"jay": 6, "owl": 4, "wren": 5}
    await driver.keys("j", "k", "j")
    assert workspace.classes_pane.entry is not None
    assert workspace.classes_pane.entry.name == "owl"
    workspace.photos_pane.gallery.focus()
    await driver.keys("space", "space", "m")
    await driver.type("wren")
    assert driver.counts == {"jay": 6, "owl": 2, "wren": 7}
    await driver.keys("m", "escape")
    assert driver.counts == {"jay": 6, "owl": 2, "wren": 7}
    await workspace.query_pane.ask_now(["/queries/swan-1.jpg"])
    workspace.query_pane.picture.preview.focus()
    await driver.keys("m")
    await driver.type("jay")
    assert driver.counts["jay"] == 7
    await driver.keys("1", "9")  # the photo is already an example, and class 9 does not exist
    assert driver.counts["jay"] == 7
    workspace.classes_pane.list.focus()
    await driver.keys("d", "d", "d", "d", "r", "m")
    assert driver.counts == {}
    assert driver.app.screen is workspace


async def test_d_deletes_a_class_only_if_the_classes_pane_is_focused(driver: Driver) -> None:
    workspace = driver.app.workspace
    before = driver.counts
    await workspace.query_pane.ask_now(["/queries/swan-1.jpg"])
    workspace.query_pane.picture.preview.focus()
    await driver.keys("d")
    assert driver.counts == before
    assert "from the answers" in driver.said
    workspace.classes_pane.list.focus()
    await driver.keys("d")
    assert driver.counts == {"owl": 4, "wren": 5}
    assert "deleted jay, 6 photos" in driver.said


async def test_the_error_map_can_be_changed_by_key(driver: Driver) -> None:
    app, workspace = driver.app, driver.app.workspace
    picture, photos = workspace.query_pane.picture, workspace.photos_pane
    await driver.keys("c", "right_square_bracket", "L", "x", "full_stop")  # nothing was classified yet
    assert app.screen is workspace
    await workspace.query_pane.ask_now(["/queries/owl-10.jpg"])
    picture.preview.focus()
    names = workspace.controller.names
    await driver.keys("right_square_bracket")
    assert names[picture.heat_class or 0] == "jay"
    await driver.keys("left_square_bracket", "left_square_bracket")
    assert names[picture.heat_class or 0] == "wren"
    await driver.keys("H", "t", "g")
    assert (picture.look, picture.smooth) == ("map", False)
    await driver.keys("t")
    assert picture.smooth
    assert photos.gallery.view == "list"
    workspace.set_mode("none")
    await driver.keys("z")
    assert workspace.context.mode == picture.preview.mode == "none"
    assert workspace.has_class("-zoomed")
    await driver.keys("escape", "c")
    assert not workspace.has_class("-zoomed")
    assert app.clipboard == "/queries/owl-10.jpg\towl\t0.9000"
    photos.gallery.focus()
    await driver.keys("s")
    assert photos.by_fit
    await driver.keys("slash")
    await driver.type("jay-3")
    assert photos.gallery.cursor_item is not None
    assert photos.gallery.cursor_item.path == "/photos/jay/jay-3.jpg"
    await driver.keys("escape")
    assert photos.wanted_name == ""
    await driver.keys("slash")
    await driver.type("jay-3")
    assert photos.wanted_name == "jay-3"
    await workspace.controller.open_folder(None, (await workspace.controller.scan("/photos"))["classes"])
    await driver.idle()
    assert photos.wanted_name == ""  # it was meant for the photos that were open


async def test_answering_none_of_these_keeps_the_threshold(driver: Driver) -> None:
    controller, workspace = driver.app.controller, driver.app.workspace
    await workspace.query_pane.ask_now(["/queries/swan-1.jpg"])
    workspace.query_pane.picture.preview.focus()
    workspace.controller.session.set_threshold(0.36)
    await controller.sync()
    await driver.keys("x")
    assert controller.threshold == 0.36
    assert [other.key for other in controller.session.state.others] == ["swan-1.jpg"]
    await driver.keys("minus")
    assert controller.threshold == pytest.approx(0.35)
    assert "unknown 1 → 0" in driver.said
    workspace.query_pane.set_threshold(workspace.query_pane.bars.ThresholdChosen(0.6))
    await driver.idle()
    assert controller.threshold == 0.6
    await driver.keys("0")
    assert controller.threshold == 0.4


async def test_photos_without_a_class_become_one_with_their_folders_name(driver: Driver) -> None:
    workspace = driver.app.workspace
    workspace.classes_pane.list.focus()
    await driver.keys("d", "d", "d")
    workspace.classes_pane.add(["/nowhere", "/queries/swan-1.jpg"])
    await driver.idle()
    assert driver.counts == {"queries": 1}
    workspace.classes_pane.add(["/photos/jay"])
    await driver.idle()
    assert driver.counts == {"queries": 1, "jay": 6}
    await driver.keys("A")
    await driver.type("bird")
    workspace.classes_pane.add(["/photos/owl"])
    await driver.idle()
    assert driver.counts == {"queries": 1, "jay": 6, "bird": 4}


async def test_recent_folders_are_offered_and_unsaved_work_needs_confirmation(
    drive: Drive, private_state: Path
) -> None:
    Settings(recent=["/home/birds.frn.json"]).write()
    driver = await drive()
    app = driver.app
    app.controller.session.create("finch")
    before = driver.counts
    await driver.keys("ctrl+o")
    await driver.type("another")
    assert isinstance(app.screen, Picker)
    await driver.keys("escape")
    for option, counts in (("cancel", before), ("continue", {"jay": 1})):
        await driver.keys("ctrl+o")
        await driver.pilot.press("down", "enter")  # the first entry is the open document
        await driver.until(lambda: "unsaved" in getattr(app.screen, "dialog_title", ""))
        await driver.type(option)
        assert driver.counts == counts
    assert app.controller.project == "/home/birds.frn.json"
    await app.workspace.project_bar.open_place("/nowhere")
    assert driver.counts == {"jay": 1}
    await driver.keys("u", "ctrl+r")  # nothing to undo
    assert driver.counts == {"jay": 1}


async def test_an_externally_changed_project_is_replaced_only_on_request(drive: Drive, fake_engine: FakeEngine) -> None:
    def save(tell: object, **arguments: Any) -> None:
        if not arguments["replace"]:
            raise EngineError("/home/x.frn.json: was changed meanwhile", code=EXISTS)

    fake_engine.op_save = save  # type: ignore[method-assign]
    driver = await drive()
    app = driver.app
    app.controller.project = "/home/x.frn.json"
    app.controller.session.create("finch")
    for option, saved in (("cancel", False), ("replace", True)):
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: isinstance(app.screen, Choose))
        await driver.type(option)
        assert app.controller.session.is_saved == saved


async def test_palette_lists_all_commands_and_models(
    drive: Drive, fake_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frn_tui.app.named_extractors", lambda: ["conv4", "resnet12"])
    driver = await drive()
    app = driver.app
    commands = {command.title: command for command in app.get_system_commands(app.screen)}
    listed = {name.replace("-", " ").capitalize() for name in BOUND if not name.startswith("class-")}
    unlisted = {"Cancel", "Next pane", "Previous pane"}
    assert listed - unlisted | {"Model"} <= set(commands)
    assert not (unlisted | {"Class 1"}) & set(commands)
    await commands["Texture"].callback()
    assert not app.workspace.query_pane.picture.smooth
    before = driver.counts
    app.workspace.classes_pane.list.focus()
    await driver.pilot.pause()
    await commands["Remove"].callback()
    await driver.idle()
    assert len(driver.counts) == len(before) - 1
    commands["Model"].callback()
    await driver.pilot.pause()
    await driver.type("resnet")
    assert app.controller.model_name == "resnet12"
    assert fake_engine.calls.count("open_model") == 2


async def test_classes_are_ordered_by_size_and_name_and_keep_their_numbers(
    driver: Driver, lines: Callable[[Any], list[str]]
) -> None:
    def names() -> list[str]:
        return [line[1:10].strip() for line in lines(driver.app)[2:5]]

    assert names() == ["1 jay", "2 owl", "3 wren"]
    driver.app.workspace.focus_pane("classes")
    await driver.keys("s", "s")
    assert names() == ["2 owl", "3 wren", "1 jay"]
    await driver.keys("s", "s")
    assert names() == ["1 jay", "2 owl", "3 wren"]


async def test_misfits_are_listed_likeliest_first_and_can_be_moved(driver: Driver) -> None:
    controller, pane = driver.app.controller, driver.app.workspace.photos_pane
    jay, owl, wren = controller.session.state.classes
    for entry, key, rank, lead in ((jay, "jay-3.jpg", 2, 0.1), (wren, "wren-2.jpg", 1, 0.3)):
        controller.reports[entry.id]["rank"][key] = rank
        controller.reports[entry.id]["rival"][key] = owl.id, lead, lead, 0.9
    await driver.keys("exclamation_mark")
    assert pane.gallery.paths == ["/photos/wren/wren-2.jpg", "/photos/jay/jay-3.jpg"]
    assert "misfits of all classes 2" in str(pane.border_title)
    workspace = driver.app.workspace
    assert not workspace.query_pane.region  # its space is used for the photos
    assert not workspace.classes_pane.region
    assert {str(item.name) for item in pane.gallery.items} == {"wren → owl 0.90", "jay → owl 0.90"}
    assert workspace.context.jobs.hint.startswith("y: to owl 0.90   Y: all 2 from 0.90 up   1-9: move wren-2.jpg to")
    await driver.keys("y")
    assert driver.counts == {"jay": 6, "owl": 5, "wren": 4}
    assert driver.said == "moved wren-2.jpg to owl   u: undo"
    await driver.keys("escape")
    assert not pane.everywhere
    assert driver.app.workspace.query_pane.region
    await driver.keys("exclamation_mark", "shift+tab")
    assert workspace.classes_pane.has_focus_within
    assert workspace.classes_pane.region
    await driver.keys("escape", "f")
    await driver.type("near copies")
    assert "no matching photos: near copies" in pane.gallery.empty_text


async def test_groups_of_unknown_photos_become_classes(drive: Drive, fake_engine: FakeEngine) -> None:
    def group(tell: object, paths: list[str]) -> list[list[str]]:
        return [paths]

    fake_engine.op_group = group  # type: ignore[attr-defined]
    driver = await drive()
    await driver.app.workspace.query_pane.ask_now(["/queries"])
    await driver.keys("G", "enter")
    assert driver.counts == {"jay": 6, "owl": 4, "wren": 5, "group 1": 1}
    await driver.keys("u")
    assert "group 1" not in driver.counts


async def test_class_names_and_counts_of_an_opened_folder_appear_before_its_photos_are_read(
    drive: Drive, fake_engine: FakeEngine, lines: "Callable[[Any], list[str]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {f"/many/{name}": [f"{name}-{i}.jpg" for i in range(300)] for name in ("elk", "fox")}
    monkeypatch.setattr(fake_engine, "FOLDERS", {**fake_engine.FOLDERS, "/many": ["elk", "fox"], **many})
    driver = await drive()
    fake_engine.held["embed"] = asyncio.Event()
    driver.app.context.start(driver.app.workspace.project_bar.open_place, "/many")
    await driver.until(lambda: list(driver.counts) == ["elk", "fox"])
    await driver.pilot.pause()
    assert driver.counts == {"elk": 0, "fox": 0}
    assert "1 elk               300" in "\n".join(lines(driver.app))
    assert "2 classes · 600 photos" in lines(driver.app)[0]
    await driver.keys("escape")
    fake_engine.held["embed"].set()
    await driver.idle()
    assert "0 photos" in lines(driver.app)[0]


async def test_the_next_answer_follows_a_removed_one(driver: Driver) -> None:
    query, pane = driver.app.controller.query, driver.app.workspace.query_pane
    await pane.ask_now([f"/queries/{name}.jpg" for name in ("jay-10", "owl-10", "owl-11", "wren-10")])
    pane.picture.preview.focus()
    query.show("/queries/owl-10.jpg")
    await driver.keys("d")
    assert query.answer is not None
    assert query.answer["path"] == "/queries/owl-11.jpg"
    query.show("/queries/wren-10.jpg")
    await driver.keys("d")
    assert query.answer["path"] == "/queries/jay-10.jpg"


async def test_a_filter_of_the_query_pane_is_shown_and_ended_by_escape(
    driver: Driver, lines: Callable[[App[Any]], list[str]]
) -> None:
    pane = driver.app.workspace.query_pane
    await pane.ask_now([f"/queries/{name}.jpg" for name in ("jay-10", "owl-10", "owl-11")])
    pane.picture.preview.focus()
    await driver.keys("f")
    await driver.type("answer owl")
    assert "/2 (filtered)" in "".join(lines(driver.app))
    await driver.keys("escape")
    assert "(filtered)" not in "".join(lines(driver.app))
    assert len(driver.app.controller.arrangement.paths) == 3


async def test_what_a_page_needs_and_errors_of_exports_stay_in_the_problems(
    driver: Driver, fake_engine: FakeEngine
) -> None:
    for path in ("/home/page", "/nowhere"):
        await driver.pilot.press("e", "down", "enter")
        await driver.until(lambda: getattr(driver.app.screen, "dialog_title", "") == "Export web page to")
        driver.app.screen.query_one("Input").value = path  # type: ignore[attr-defined]
        await driver.pilot.press("enter")
        await driver.idle()
    assert fake_engine.written == {"/home/page": "page"}
    reasons = {problem.path: problem.reason for problem in driver.app.controller.problems}
    assert reasons["/home/page"] == "/home/page: needs onnxruntime-web"
    assert reasons["/nowhere"] == "/nowhere: cannot be written"
