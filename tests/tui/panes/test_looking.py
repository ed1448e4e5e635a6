"""The size of a photo in the terminal, and zooming."""

from collections.abc import Callable
from typing import Any

import pytest
from frn_tui.dialogs.dialogs import Closeup
from frn_tui.panes.picture import LOOKS
from frn_tui.widgets.gallery import tiled
from textual.geometry import Size

from tests.tui.conftest import Drive, Driver
from tests.tui.fake_engine import FakeEngine

Lines = Callable[[Any], list[str]]
CROPPED = "/queries/owl-10.jpg#xywh=225,112,100,76"


async def test_example_is_enlarged_and_cropped_and_the_next_one_shown(driver: Driver, lines: Lines) -> None:
    workspace = driver.app.workspace
    workspace.focus_pane("photos")
    await driver.keys("z")
    closeup = driver.app.screen
    assert isinstance(closeup, Closeup)
    assert closeup.preview.size.area > 0.9 * 140 * 40
    await driver.keys("right", "z", "z", "right")  # when zoomed in, the arrow moves the photo
    assert (closeup.at, closeup.preview.zoom) == (1, 4.0)
    assert closeup.preview.centre[0] > 0.5
    assert "2/6  jay-1.jpg" in lines(driver.app)[-1]
    await driver.keys("Z", "Z", "right", "escape")
    assert driver.app.screen is workspace
    assert workspace.photos_pane.gallery.cursor == 2
    await driver.keys("home")
    first = workspace.photos_pane.gallery.paths[0]
    await driver.keys("z", "z", "z", "B")  # crops to the visible part, in one step
    await driver.idle()
    assert driver.app.screen is workspace
    cropped, *rest = workspace.photos_pane.gallery.paths
    assert cropped.startswith(f"{first}#xywh=")
    assert not [path for path in rest if "#" in path]
    await driver.keys("u")
    await driver.idle()
    assert workspace.photos_pane.gallery.paths[0] == first


async def test_query_photo_can_be_enlarged_and_cropped(driver: Driver, lines: Lines) -> None:
    workspace, query = driver.app.workspace, driver.app.workspace.query_pane.controller.query
    preview = workspace.query_pane.picture.preview
    workspace.ask(["/queries/owl-10.jpg"])
    await driver.idle()
    before = preview.size.area
    await driver.keys("z")
    assert preview.size.area > 2 * before
    await driver.keys("z", "z", "Z", "left")
    assert preview.zoom == 2.0
    assert preview.centre[0] < 0.5
    await driver.keys("Z", "Z")
    assert (preview.zoom, workspace.has_class("-zoomed")) == (1.0, False)
    await driver.keys("z", "z", "escape")
    assert (preview.zoom, workspace.has_class("-zoomed")) == (1.0, False)
    await driver.keys("B")  # the whole photo is in view
    assert query.answer is not None
    assert query.answer["path"] == "/queries/owl-10.jpg"
    await driver.keys("z", "z", "z", "right", "right", "right", "B")
    await driver.idle()
    assert [answer["path"] for answer in query.answers] == [CROPPED]
    assert workspace.query_pane.picture.preview.zoom == 1.0
    await driver.keys("B")
    await driver.idle()
    assert [answer["path"] for answer in query.answers] == ["/queries/owl-10.jpg"]
    assert preview.picture is not None
    picture = preview.picture
    left, top = (preview.size.width - picture.columns) // 2, (preview.size.height - picture.rows) // 2
    await driver.pilot.mouse_down(preview, (left + 8, top + 2))
    await driver.pilot.mouse_up(preview, (left + 8, top + 2))  # a click
    await driver.idle()
    assert query.answer is not None
    assert query.answer["path"] == "/queries/owl-10.jpg"
    await driver.pilot.mouse_down(preview, (left + 8, top + 2))
    await driver.pilot.hover(preview, (left + 2, top + 5))
    assert [line for line in lines(driver.app) if "+─────+" in line]
    await driver.pilot.mouse_up(preview, (left + 2, top + 5))
    await driver.idle()
    across, down = picture.photo[0] / picture.columns, picture.photo[1] / picture.rows
    edges = [round(edge) for edge in (2 * across, 2 * down, 9 * across, 6 * down)]
    box = f"{edges[0]},{edges[1]},{edges[2] - edges[0]},{edges[3] - edges[1]}"
    assert [answer["path"] for answer in query.answers] == [f"/queries/owl-10.jpg#xywh={box}"]
    await driver.keys("B")
    await driver.idle()
    assert [answer["path"] for answer in query.answers] == ["/queries/owl-10.jpg"]


@pytest.mark.parametrize("count", [1, 2, 6, 40, 10_000])
@pytest.mark.parametrize("room", [(52, 35), (78, 19), (84, 56), (6, 3), (1, 1)])
def test_tiles_are_as_large_as_possible(count: int, room: tuple[int, int]) -> None:
    grid = tiled(count, Size(*room))
    assert grid.columns * grid.pitch.width <= max(room[0] + 1, 2)
    smallest = tiled(count, Size(*room), 16)
    if grid.height <= room[1]:  # all are visible; one more row or column would not fit or would shrink them
        assert grid.pitch.area >= smallest.pitch.area or smallest.height > room[1]
    else:
        assert grid.columns == max((room[0] + 1) // 17, 1)


async def test_map_is_beside_the_photo_if_it_fits_and_otherwise_over_it(driver: Driver, lines: Lines) -> None:
    workspace = driver.app.workspace
    picture = workspace.query_pane.picture
    workspace.ask(["/queries/owl-10.jpg"])
    await driver.idle()
    assert not picture.map.size.area
    text = "\n".join(lines(driver.app))
    assert "frame: the part that the network sees" in text
    assert "H: where it is unlike any owl" in text
    picture.preview.focus()
    await driver.idle()
    await driver.keys("H")
    assert "coloured: unlike any owl" in "\n".join(lines(driver.app))
    await driver.keys("H")
    assert "light: unlike any owl" in "\n".join(lines(driver.app))
    await driver.keys("H")
    await driver.pilot.resize_terminal(200, 60)
    await driver.idle()
    assert picture.look == LOOKS[0]
    assert picture.map.size.area > 0.9 * picture.preview.size.area
    assert "unlike any owl" in "\n".join(lines(driver.app))
    assert picture.map.picture is not None


@pytest.mark.app(size=(80, 24))
async def test_an_80_column_terminal_shows_one_pane_at_a_time(driver: Driver) -> None:
    workspace = driver.app.workspace
    panes = [workspace.query_pane, workspace.classes_pane, workspace.photos_pane]
    for pane in (*panes, panes[0]):
        assert [other.size.width > 70 for other in panes] == [other is pane for other in panes]
        assert pane.has_focus_within
        await driver.keys("tab")
    workspace.ask(["/queries/owl-10.jpg"])
    await driver.idle()
    assert workspace.query_pane.picture.preview.size.area > 0.33 * 80 * 24


async def test_model_without_error_maps_shows_the_photo_and_says_why(
    drive: Drive, lines: Lines, fake_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = fake_engine.op_open_model(lambda event: None, "srm.onnx") | {"head": "srm", "has_maps": False}
    told = fake_engine.op_query

    def query(tell: Any, **asked: Any) -> None:
        told(lambda event: tell({**event, "maps": {}} if event["event"] == "answer" else event), **asked)

    monkeypatch.setattr(fake_engine, "op_open_model", lambda tell, model: about)
    monkeypatch.setattr(fake_engine, "op_query", query)
    driver = await drive()
    workspace = driver.app.workspace
    workspace.ask(["/queries/owl-10.jpg"])
    await driver.idle()
    shown = "\n".join(lines(driver.app))
    assert "no error map: srm is not an FRN head" in shown
    assert "unlike any" not in shown
    await driver.keys("H", "J")
    assert "joint classification needs an FRN head" in "\n".join(lines(driver.app))
    assert not driver.app.controller.query.jointly
