"""Keys that arrive while a pane is hidden, a list is filtered or the engine is still busy."""

import asyncio

import pytest
from frn_tui.document.photo_files import sort

from tests.tui.conftest import Drive, Driver
from tests.tui.fake_engine import FakeEngine


def mark(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, misfit: str, near: str) -> None:
    """Report an example as a misfit, and another as a near copy."""
    classes = engine.op_classes

    def marked(*words: object, **named: object) -> dict[str, object]:
        told = classes(*words, **named)  # type: ignore[arg-type]
        for report in told["reports"]:
            if misfit in report["explained"]:
                report["rank"][misfit] = 1
            if near in report["explained"]:
                report["near"][near] = misfit
        return told

    monkeypatch.setattr(engine, "op_classes", marked)


@pytest.mark.parametrize("narrowing", ["name", "mark"])
async def test_the_next_misfit_is_shown_although_the_photos_are_filtered(
    narrowing: str, drive: Drive, fake_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark(fake_engine, monkeypatch, "jay-3.jpg", "jay-1.jpg")
    driver = await drive()
    workspace = driver.app.workspace
    workspace.focus_pane("photos")
    if narrowing == "name":
        await driver.keys("slash")
        await driver.type("jay-5")
    else:
        workspace.photos_pane.show_everywhere("near")
    assert len(workspace.photos_pane.gallery.paths) == 1
    await driver.keys("n")
    item = workspace.photos_pane.gallery.cursor_item
    assert item is not None
    assert item.name == "jay-3.jpg"
    assert not workspace.has_class("-everywhere")


async def test_keys_in_the_list_of_misfits_do_not_act_on_the_hidden_query(
    drive: Drive, fake_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark(fake_engine, monkeypatch, "jay-3.jpg", "jay-1.jpg")
    driver = await drive()
    workspace, copied = driver.app.workspace, list[str]()
    monkeypatch.setattr(driver.app, "copy_to_clipboard", copied.append)
    await workspace.query_pane.ask_now(["/queries/wren-10.jpg"])
    workspace.focus_pane("photos")
    await driver.keys("exclamation_mark", "c", "y")
    assert copied == ["/photos/jay/jay-3.jpg\tjay"]
    before = driver.counts
    await driver.keys("x")
    state = driver.app.controller.session.state
    assert [other.key for other in state.others] == ["jay-3.jpg"]
    assert driver.counts == {**before, "jay": before["jay"] - 1}


async def test_keys_are_not_offered_for_a_hidden_query(drive: Drive) -> None:
    driver = await drive(size=(60, 24))
    workspace, before = driver.app.workspace, driver.counts
    await workspace.query_pane.ask_now(["/queries/wren-10.jpg"])
    workspace.focus_pane("query")
    await driver.idle()
    assert workspace.needed()["right"]
    assert workspace.context.jobs.hint.startswith("1-9: add wren-10.jpg to")
    workspace.focus_pane("classes")
    await driver.idle()
    assert not workspace.needed()["right"]
    assert workspace.context.jobs.hint == ""
    for key in ("1", "y", "m"):
        await driver.keys(key)
        assert driver.app.screen is workspace
        assert driver.said == "the query is hidden: tab shows it"
    assert driver.counts == before


async def test_a_crop_has_no_label_before_it_is_classified(driver: Driver, fake_engine: FakeEngine) -> None:
    controller = driver.app.controller
    await driver.app.workspace.query_pane.ask_now(["/queries/owl-10.jpg"])
    fake_engine.held["query"] = asyncio.Event()
    cropping = asyncio.create_task(controller.crop_query("/queries/owl-10.jpg", "/queries/owl-10.jpg#xywh=1,2,3,4"))
    await asyncio.sleep(0.05)
    assert "key" not in controller.query.answers[0]
    fake_engine.held.pop("query").set()
    await cropping
    assert "key" in controller.query.answers[0]


async def test_photos_are_added_to_the_class_that_was_chosen_first(driver: Driver, fake_engine: FakeEngine) -> None:
    pane, before = driver.app.workspace.classes_pane, driver.counts
    first, second = driver.app.controller.session.state.classes[:2]
    pane.list.choose(first.id)
    await driver.idle()
    fake_engine.held["scan"] = asyncio.Event()
    adding = asyncio.create_task(pane.add_now(["/queries/owl-10.jpg"]))
    await asyncio.sleep(0.05)
    pane.list.choose(second.id)
    await driver.pilot.pause()
    fake_engine.held.pop("scan").set()
    await adding
    assert driver.counts == {**before, first.name: before[first.name] + 1}


async def test_undo_keeps_an_answer_that_was_removed_and_asked_again(driver: Driver) -> None:
    pane, query = driver.app.workspace.query_pane, driver.app.controller.query
    await pane.ask_now(["/queries/owl-10.jpg", "/queries/jay-10.jpg"])
    pane.picture.preview.focus()
    await driver.idle()
    await driver.keys("d", "2")
    await pane.ask_now(["/queries/owl-10.jpg"])
    await driver.keys("u")
    assert len(query.answers) == 2


async def test_sorted_photos_take_their_boxes_along(driver: Driver, fake_engine: FakeEngine) -> None:
    controller = driver.app.controller
    whole, box = "/queries/owl-10.jpg", "/queries/owl-10.jpg#xywh=1,2,3,4"
    await controller.ask([box])
    controller.label(controller.query.answers, 1)
    await driver.app.workspace.query_pane.ask_now([whole])
    said = await sort(controller, "/sorted", [(whole, "owl"), (box, "jay")], move=True)
    assert said == "1 moved"
    place = next(answer["path"] for answer in controller.query.answers if "#" not in answer["path"])
    assert place.startswith("/sorted/")
    assert f"{place}#xywh=1,2,3,4" in {str(photo.path) for photo in controller.session.state.photos}
    assert await sort(controller, "/sorted", [(place, "owl")], move=True) == "0 moved, 1 already there"


async def test_photos_of_no_class_have_another_word_if_a_class_is_called_so(driver: Driver) -> None:
    controller = driver.app.controller
    await driver.app.workspace.query_pane.ask_now(["/queries/owl-10.jpg"])
    controller.set_aside(controller.query.answers)
    assert [item.said for item in controller.reviewed()] == ["none of these"]
    controller.session.create("none of these")
    (item,) = controller.reviewed()
    assert item.is_other
    assert item.said == "none of the classes"


async def test_photos_of_no_class_are_read_again_with_another_model(driver: Driver, fake_engine: FakeEngine) -> None:
    controller = driver.app.controller
    await driver.app.workspace.query_pane.ask_now(["/queries/owl-10.jpg"])
    controller.set_aside(controller.query.answers)
    await controller.sync()
    other = controller.session.state.others[0]
    await controller.change_model("conv4")
    assert other.key in fake_engine.known
    assert str(other.path) in {str(photo.path) for photo in controller.session.state.photos}


async def test_misfits_of_classes_that_are_still_opening_are_not_called_none(
    drive: Drive, fake_engine: FakeEngine
) -> None:
    driver = await drive()
    fake_engine.held["classes"] = asyncio.Event()
    driver.app.context.start(driver.app.controller.open_folder, "/photos", {"jay": ["/photos/jay/jay-1.jpg"]})
    driver.app.workspace.focus_pane("photos")
    await driver.pilot.press("exclamation_mark")
    pane = driver.app.workspace.photos_pane
    assert pane.gallery.empty_text == "none yet: misfits of all classes · opening   esc: back"
    assert str(pane.border_title) == "Photos · misfits of all classes 0 · opening"
    fake_engine.held.pop("classes").set()
    await driver.idle()
    assert pane.gallery.empty_text == "no matching photos: misfits of all classes   esc: back"
