"""Subjects of photos are found, shown, labelled and kept."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from frn_tui.client.protocol import EngineError
from frn_tui.dialogs.dialogs import Closeup
from frn_tui.panes.why import WhyScreen

from tests.tui.fake_engine import FakeEngine

if TYPE_CHECKING:
    from tests.tui.conftest import Driver

Lines = Callable[[Any], list[str]]
QUERY = "/queries/jay-10.jpg"
CROP = f"{QUERY}#xywh=100,90,120,120"


async def searching(driver: "Driver", *paths: str) -> None:
    await driver.keys("F")
    await driver.type("on")
    driver.app.workspace.ask(paths)
    await driver.idle()


async def test_a_query_shows_its_subject_closely_and_enlarged_in_the_whole_photo(
    driver: "Driver", lines: Lines
) -> None:
    await searching(driver, QUERY)
    preview = driver.app.workspace.query_pane.picture.preview
    close = preview.request
    assert close is not None
    assert (close.path, close.subject, close.framed) == (f"{QUERY}#xywh=80,70,160,160", [20, 20, 120, 120], True)
    shown = "\n".join(lines(driver.app))
    assert "frame: the subject that was found" in shown
    assert "finds subjects" in shown
    await driver.keys("z")
    whole = preview.request
    assert whole is not None
    assert (whole.path, whole.subject, whole.framed) == (QUERY, [100, 90, 120, 120], True)
    await driver.keys("escape", "H")
    assert (blend := preview.request) is not None
    assert (blend.look, blend.path, blend.subject) == ("blend", close.path, close.subject)
    await driver.keys("W")
    assert isinstance(screen := driver.app.screen, WhyScreen)
    assert screen.path == CROP
    await driver.keys("escape", "L")
    (tile,) = driver.app.screen.gallery.items  # type: ignore[attr-defined]
    assert (tile.path, tile.shown, tile.subject) == (QUERY, close.path, (100, 90, 120, 120))


async def test_all_subjects_have_frames_and_are_counted(driver: "Driver", lines: Lines) -> None:
    names = [*driver.app.controller.names.values()]
    await driver.keys("F")
    await driver.type("all:")
    driver.app.workspace.ask([QUERY])
    await driver.idle()
    shown = "\n".join(lines(driver.app))
    assert f"subjects: 2 {names[0]}, 1 {names[1]}" in shown
    assert shown.count(f"+{names[0]}") == 2
    preview = driver.app.workspace.query_pane.picture.preview
    assert (whole := preview.request) is not None
    assert (whole.path, whole.framed) == (QUERY, False)
    driver.app.workspace.ask([QUERY, QUERY.replace("1", "2")])
    await driver.idle()
    await driver.keys("F", "enter")  # the current choice is highlighted
    assert f"all 2 photos: 4 {names[0]}, 2 {names[1]}" in "\n".join(lines(driver.app))
    await driver.keys("u")  # without the search
    assert f"+{names[0]}" not in "\n".join(lines(driver.app))


@pytest.mark.parametrize(("request_", "words"), [("classes", "on"), ("choose_search", "auto")])
async def test_escape_stops_the_search_of_the_examples(
    driver: "Driver", fake_engine: FakeEngine, request_: str, words: str
) -> None:
    fake_engine.held[request_] = asyncio.Event()
    session = driver.app.controller.session
    await driver.keys("F")
    await driver.pilot.press(*words, "enter")
    await driver.until(lambda: session.state.search != "none")
    await driver.pilot.press("escape")
    fake_engine.held.pop(request_).set()
    await driver.idle()
    assert session.state.act != "found subjects"
    await searching(driver)
    await driver.keys("escape")  # nothing is being searched
    assert session.state.act == "found subjects"


async def test_a_labelled_query_keeps_the_box_that_was_found(driver: "Driver") -> None:
    await searching(driver, QUERY)
    session = driver.app.controller.session
    await driver.keys("y")
    (last,) = [s for entry in session.state.classes for s in entry.supports if "jay-10" in s.path.name]
    assert (str(last.path), last.key) == (CROP, "jay-10.jpg#xywh=100,90,120,120")
    assert driver.app.controller.reviewed()[0].label == "jay"
    await driver.keys("u")
    assert not [s for entry in session.state.classes for s in entry.supports if "jay-10" in s.path.name]


def boxes(driver: "Driver") -> list[str]:
    """Return the boxes of the first class's examples; empty for a whole photo."""
    examples = driver.app.controller.session.state.classes[0].supports
    return [str(support.path).partition("#xywh=")[2] for support in examples]


async def drawing(driver: "Driver") -> Closeup:
    screen = driver.app.screen
    assert isinstance(screen, Closeup)
    await driver.until(lambda: screen.box)
    return screen


async def test_a_box_on_one_example_finds_the_others_which_are_accepted_mended_and_undone(
    driver: "Driver", lines: Lines
) -> None:
    workspace = driver.app.workspace
    workspace.focus_pane("photos")
    await driver.keys("B")
    closeup = await drawing(driver)
    assert closeup.box == [100, 75, 200, 150]  # the middle
    await driver.keys("right", "up", "minus")
    assert closeup.box == [118, 74, 180, 136]
    assert "+───" in "\n".join(lines(driver.app))
    await driver.keys("y")
    assert boxes(driver) == ["118,74,180,136", *[""] * 5]
    assert "F: find it in the other photos" in "\n".join(lines(driver.app))
    await driver.keys("F")
    await driver.type("on")
    gallery = workspace.photos_pane.gallery
    assert [item.subject for item in gallery.items] == [(), *[(40, 30, 90, 90)] * 5]
    workspace.show_example(f"{gallery.paths[3]}#xywh=40,30,90,90")  # as an explanation names it
    assert gallery.cursor == 3
    await driver.keys("home", "right")
    assert workspace.context.jobs.hint.startswith("y: use the box that was found   Y: all 5")
    await driver.keys("y")
    assert boxes(driver) == ["118,74,180,136", "40,30,90,90", *[""] * 4]
    assert workspace.controller.session.state.classes[0].supports[1].key == "jay-1.jpg#xywh=40,30,90,90"
    await driver.keys("u", "Y")
    assert boxes(driver) == ["118,74,180,136", *["40,30,90,90"] * 5]
    await driver.keys("u")
    report = workspace.controller.reports[workspace.controller.session.state.classes[0].id]
    report["rival"]["jay-1.jpg"] = (2, 1.0, 1.0, 0.9)
    assert workspace.photos_pane.suggestion().startswith("y: to ")
    workspace.controller.unranked = 5  # probabilities are preliminary
    assert workspace.photos_pane.suggestion().startswith("y: use the box that was found")
    workspace.controller.unranked = 0
    del report["rival"]["jay-1.jpg"]
    await driver.keys("ctrl+r")
    await driver.keys("u", "z")
    assert "y: use the box   B: mend it" in "\n".join(lines(driver.app))
    await driver.keys("B", "down", "right", "enter")
    assert boxes(driver) == ["118,74,180,136", "48,38,90,90", *[""] * 4]
    await driver.keys("B")
    closeup = await drawing(driver)
    assert closeup.box == [48, 38, 90, 90]
    await driver.keys("B")
    assert boxes(driver) == ["118,74,180,136", *[""] * 5]
    await driver.keys("z", "B", "escape", "escape")
    assert boxes(driver) == ["118,74,180,136", *[""] * 5]


async def test_the_project_keeps_the_search_and_files_of_answers_have_the_boxes(
    driver: "Driver", fake_engine: FakeEngine
) -> None:
    await searching(driver, QUERY)
    for form, name in (("answers as CSV", "x.csv"), ("answers as JSON", "x.jsonl")):
        await driver.keys("e")
        await driver.type(form)
        await driver.type(f"/home/{name}")
    assert "x,y,width,height" in fake_engine.written["/home/x.csv"]
    assert ",100,90,120,120," in fake_engine.written["/home/x.csv"]
    assert '"box": [100, 90, 120, 120]' in fake_engine.written["/home/x.jsonl"]
    await driver.keys("S")
    await driver.type("/home/x.frn.json")
    assert fake_engine.saved[-1]["state"]["search"] == "one"
    await driver.keys("F")
    await driver.type("off")
    preview = driver.app.workspace.query_pane.picture.preview
    assert preview.request is not None
    assert (preview.request.path, preview.request.subject) == (QUERY, [])
    await driver.keys("u")
    assert driver.app.controller.session.state.search == "one"


async def test_auto_says_what_the_examples_decided(driver: "Driver", lines: Lines) -> None:
    await driver.keys("F")
    await driver.type("auto")
    assert driver.app.controller.session.state.search == "one"
    assert "subjects are searched for: they are small" in "\n".join(lines(driver.app))


async def test_a_model_that_cannot_search_leaves_the_classes_as_they_are(
    driver: "Driver", fake_engine: FakeEngine
) -> None:
    before, classes = driver.app.controller.session.state, fake_engine.op_classes

    def refuse(tell: Any, state: dict[str, Any]) -> dict[str, Any]:
        if state["search"] != "none":
            raise EngineError("a ctx model cannot search photos")
        return classes(tell, state)

    fake_engine.op_classes = refuse  # type: ignore[method-assign]
    await driver.keys("F")
    await driver.type("on")
    assert driver.app.controller.session.state == before
    assert any("cannot search photos" in note for note in driver.notes)
