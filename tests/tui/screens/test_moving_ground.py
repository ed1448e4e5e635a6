"""No key acts on another photo than the one in front of its user, whatever arrives and however the window changes."""

import pytest
from frn_tui.panes.review import Review
from frn_tui.settings.keys import BOUND
from textual.app import App

from tests.tui.conftest import Drive, Driver
from tests.tui.fake_engine import FakeEngine
from tests.tui.screens.test_hidden_and_late import mark

SIZES = {"narrow": (60, 20), "medium": (110, 30), "wide": (150, 40)}
LEAVING = ("new-project", "open", "undo", "redo")
"""Keys that replace the document, or whose effect is that of an earlier key."""
STATES = {"plain": (), "large": ("z",), "misfits": ("exclamation_mark",), "review": ("L",), "found": ("L", "z")}


def in_front(app: App[None]) -> tuple[str, object]:
    """Return the visible pane in which a key acts, and the path of its photo or the id of its class."""
    workspace, screen = app.workspace, app.screen  # type: ignore[attr-defined]
    if isinstance(screen, Review):
        item = screen.gallery.cursor_item
        return "review", item and item.path
    name = workspace.in_focus
    assert workspace.panes[name].display
    assert workspace.panes[name].region.area, name
    item, answer = workspace.photos_pane.gallery.cursor_item, workspace.controller.query.answer
    targets = {
        "classes": workspace.classes_pane.chosen,
        "photos": item and item.path,
        "query": answer and answer["path"],
    }
    return name, targets[name]


def labels(driver: Driver) -> dict[str, str]:
    """Return the class of each photo, and the answers that were removed."""
    state = driver.app.controller.session.state
    return {
        **{str(photo.path): entry.name for entry in state.classes for photo in entry.supports},
        **{str(photo.path): "other" for photo in state.others},
        **dict.fromkeys(state.dropped, "dropped"),
    }


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["classes", "photos", "query"])
@pytest.mark.parametrize("state", STATES)
async def test_keys_act_on_what_was_in_front_while_photos_arrive_and_the_window_changes(
    drive: Drive, fake_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, state: str, place: str
) -> None:
    mark(fake_engine, monkeypatch, "jay-3.jpg", "jay-1.jpg")
    driver = await drive(size=SIZES["wide"])
    app, workspace = driver.app, driver.app.workspace
    asked = ["/queries/jay-10.jpg", "/queries/owl-10.jpg", "/queries/owl-11.jpg", "/queries/wren-10.jpg"]
    await workspace.query_pane.ask_now(asked)
    session = app.controller.session
    for number, name in enumerate(name for name in BOUND if name not in LEAVING):
        app.controller.query.show(asked[0])
        workspace.focus_pane(place)
        await driver.keys(*STATES[state])
        before, was, displayed = in_front(app), labels(driver), app.controller.query.shown
        await app.controller.ask([f"/queries/owl-{100 + number}.jpg"], arrived=True)
        await driver.pilot.resize_terminal(*SIZES[list(SIZES)[number % 3]])
        assert in_front(app) == before, name
        assert app.controller.query.shown == displayed, name
        await driver.pilot.press(BOUND[name].keys.split(",")[0])
        await driver.pilot.pause()
        now = labels(driver)
        changed = {path for path in was.keys() | now.keys() if was.get(path) != now.get(path)}
        if before[0] == "classes" and name == "remove":
            assert {path.rpartition("/")[2][:3] for path in changed} == {"jay"}
        else:
            seen = {*asked, *app.controller.query.seen} if name == "right-all" else ()
            of_classes = before[0] == "classes" and workspace.query_pane.display  # digits label the displayed photo
            assert changed <= {before[1], *([displayed] if of_classes else ()), *seen}, name
        while session.can_undo:
            session.undo()
        while app.screen is not workspace:
            app.screen.dismiss(None)
            await driver.pilot.pause()
        await driver.idle()
        if app.controller.query.jointly:
            await driver.keys("J")
