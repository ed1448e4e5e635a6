"""The file picker: accepting, searching, navigating, and keys that arrive before a dialog is ready."""

from collections.abc import Callable
from typing import Any

import pytest
from frn_tui.dialogs.dialogs import AskText, Choose, matching
from frn_tui.dialogs.picker import Picker
from frn_tui.panes.picture import LOOKS
from textual import events
from textual.widgets import Input

from frn.projects.names import natural_order
from tests.tui.conftest import Drive, Driver
from tests.tui.fake_engine import FakeEngine

Lines = Callable[[Any], list[str]]


async def opened(driver: Driver, key: str = "a") -> Picker:
    await driver.pilot.press(key)
    await driver.until(lambda: isinstance(driver.app.screen, Picker) and driver.app.screen.everything)
    await driver.pilot.pause()
    assert isinstance(driver.app.screen, Picker)
    return driver.app.screen


async def test_picker_accepts_the_highlighted_entry_rather_than_its_folder(driver: Driver) -> None:
    await driver.keys("ctrl+n")
    picker = await opened(driver)
    assert picker.folder == "/photos"
    await driver.pilot.press("down", "down", "f2")
    await driver.idle()
    assert driver.counts == {"owl": 4}
    picker = await opened(driver)
    await driver.keys("f2")  # the first entry is the folder itself
    assert driver.counts == {"owl": 4, "jay": 6, "wren": 5}


async def test_typing_searches_and_enter_opens_the_match(driver: Driver) -> None:
    picker = await opened(driver, "p")
    await driver.pilot.press("w", "n")
    assert [entry["name"] for entry in picker.entries] == ["wren"]
    await driver.pilot.press("enter")
    await driver.until(lambda: picker.folder == "/photos/wren")
    await driver.pilot.press("z")
    assert picker.entries == []
    await driver.pilot.press("enter", "escape")
    assert len(picker.entries) == 7
    await driver.pilot.press("2", "enter")
    await driver.idle()
    assert [answer["path"] for answer in driver.app.controller.query.answers] == ["/photos/wren/wren-2.jpg"]


async def test_recent_folders_are_opened(driver: Driver) -> None:
    driver.app.context.remember("/photos/owl")
    picker = await opened(driver)
    await driver.pilot.press("ctrl+t")
    await driver.until(lambda: isinstance(driver.app.screen, Choose))
    assert driver.app.screen.options[:2] == ["/photos/owl", "/photos"]  # type: ignore[attr-defined]
    await driver.pilot.press("enter")
    await driver.until(lambda: picker.current and picker.path_of(picker.current["name"]) == "/photos/owl")
    await driver.keys("f2")
    assert driver.app.context.settings.places == ["/photos/owl"]


def test_search_matches_letters_in_order_prefixes_first() -> None:
    names = ["ajar", "a jar", "Jar", "jxaxr", "raj"]
    assert [names[place] for place in matching(names, "jar")] == ["Jar", "ajar", "a jar", "jxaxr"]
    assert matching(names, "") == [0, 1, 2, 3, 4]


def test_names_are_sorted_in_natural_order() -> None:
    names = ["photo 10", "Photo 2", "photo 1b", "photo 1", "2", "10", "x²"]
    assert sorted(names, key=natural_order) == ["2", "10", "photo 1", "photo 1b", "Photo 2", "photo 10", "x²"]


async def test_renaming_to_another_class_merges_after_confirmation(driver: Driver) -> None:
    workspace = driver.app.workspace
    workspace.classes_pane.list.focus()
    for option, counts in (("cancel", {"jay": 6, "owl": 4, "wren": 5}), ("merge", {"owl": 10, "wren": 5})):
        await driver.keys("r")
        await driver.type(" owl ")
        await driver.until(lambda: isinstance(driver.app.screen, Choose))
        await driver.type(option)
        assert driver.counts == counts
    await driver.keys("u")
    assert driver.counts == {"jay": 6, "owl": 4, "wren": 5}


async def test_hjkl_move_in_lists_and_grids(driver: Driver) -> None:
    workspace = driver.app.workspace
    workspace.classes_pane.list.focus()
    await driver.keys("j", "j", "k")
    assert workspace.classes_pane.list.highlighted == 1
    workspace.classes_pane.list.highlighted = 0
    await driver.pilot.pause()
    gallery = workspace.photos_pane.gallery
    gallery.focus()
    await driver.keys("l", "l", "h")
    assert (gallery.cursor, workspace.query_pane.picture.look) == (1, LOOKS[0])
    await driver.keys("j")
    below = gallery.cursor
    await driver.keys("k")
    assert below > 1 == gallery.cursor
    await driver.keys("H")
    assert workspace.query_pane.picture.look == LOOKS[1]
    await workspace.query_pane.ask_now(["/queries"])
    workspace.query_pane.picture.preview.focus()
    await driver.keys("j", "j", "k")
    assert driver.app.controller.query.at == 1


async def test_keys_that_are_not_bound_say_what_is(driver: Driver, lines: Lines) -> None:
    for key in ("q", "ctrl+c"):
        await driver.keys(key)
        assert driver.notes == ["press ctrl+q to quit"]
        driver.app.clear_notifications()
    helps = {command.title: command.help for command in driver.app.get_system_commands(driver.app.screen)}
    assert helps["Relocate"] == "key R: find moved photos by their content"
    keys = [text for text in helps.values() if text.startswith("key ")]
    assert len(keys) > 30
    assert all(": " in text for text in keys)
    driver.app.push_screen(Choose("Bird", ["jay", "owl", "wren", "tit", "finch", "crow"]))
    await driver.keys("x", "down", "enter")
    assert isinstance(driver.app.screen, Choose)
    assert "no match" in "\n".join(lines(driver.app))


async def test_typed_and_marked_paths_are_classified(driver: Driver, lines: Lines) -> None:
    def asked() -> list[str]:
        return [answer["path"] for answer in driver.app.controller.query.answers]

    await driver.keys("p", "right", "space", "left", "down", "right", "space")  # mark a jay and an owl
    assert "2 marked: jay-0.jpg, owl-0.jpg" in "\n".join(lines(driver.app))
    await driver.keys("f2")
    assert asked() == ["/photos/jay/jay-0.jpg", "/photos/owl/owl-0.jpg"]
    for typed in ("./owl-2.jpg", "../owl/owl-2.jpg"):  # relative to the displayed folder
        driver.app.controller.query.clear()
        picker = await opened(driver, "p")
        picker.open("/photos/owl")
        await driver.until(lambda: getattr(driver.app.screen, "folder", "") == "/photos/owl")
        await driver.type(typed)
        assert asked() == ["/photos/owl/owl-2.jpg"]
    await driver.keys("p", *"/photos/o", "tab", *"owl-9.jpg", "enter")
    assert driver.notes == []
    await driver.keys("p", *"/photos/nowhere", "enter")
    assert isinstance(driver.app.screen, Picker)
    assert driver.app.screen.query_one(Input).value == "/photos/nowhere"  # a typo can be corrected
    assert any("No such file" in note for note in driver.notes)


async def test_folders_are_previewed_and_the_mouse_can_go_up_accept_and_cancel(driver: Driver, lines: Lines) -> None:
    picker = await opened(driver, "p")
    await driver.idle()
    assert "folders, 0 photos" in "\n".join(lines(driver.app))
    await driver.keys("down")
    assert "0 folders, " in "\n".join(lines(driver.app))
    await driver.keys("right")  # open the first folder
    assert picker.folder == "/photos/jay"
    await driver.pilot.click("#picker-buttons", offset=(2, 0))
    await driver.idle()
    assert picker.folder == "/photos"
    await driver.pilot.click("#picker-buttons", offset=(23, 0))
    await driver.idle()
    assert not picker.is_current
    assert driver.app.controller.query.answers == []
    driver.app.context.browsed = "/photos/gone/deeper"
    picker = await opened(driver, "p")
    assert picker.folder == "/photos"  # the nearest parent that exists
    picker.folder = "/photos/gone/deeper"  # the folder was deleted while it was shown
    await driver.pilot.press("left")
    await driver.until(lambda: picker.folder == "/photos")
    await driver.idle()
    picker.open("/photos/jay")
    await driver.until(lambda: picker.folder == "/photos/jay")
    await driver.pilot.click("#picker-buttons", offset=(12, 0))
    await driver.until(lambda: driver.app.controller.query.answers)
    assert driver.app.controller.query.answers[0]["path"] == "/photos/jay/jay-0.jpg"


async def test_bar_shows_its_map_and_double_click_assigns_the_photo(driver: Driver) -> None:
    workspace = driver.app.workspace
    await workspace.query_pane.ask_now(["/queries/owl-10.jpg"])
    await driver.idle()
    await driver.pilot.click("#bars", offset=(5, 2))
    await driver.idle()
    shown = workspace.query_pane.picture.heat_class
    assert driver.app.controller.names[shown or 0] == "jay"
    await driver.pilot.click("#bars", offset=(5, 2), times=2)
    await driver.idle()
    assert driver.counts["jay"] == 7


async def test_an_empty_folder_can_be_typed(
    drive: Drive, fake_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_engine, "FOLDERS", {**fake_engine.FOLDERS, "/inbox": []})
    driver = await drive()
    await opened(driver, "w")
    await driver.pilot.press(*"/inbox", "enter")
    await driver.until(lambda: driver.app.workspace.query_pane.watched == "/inbox")
    await driver.keys("w")


async def test_subfolder_is_found_by_a_few_letters(drive: Drive, fake_engine: FakeEngine) -> None:
    deep = {"/photos/owl/barn/night": ["owl-50.jpg"], "/photos/owl/barn": ["night"], "/photos/owl": ["barn"]}
    fake_engine.FOLDERS = {**FakeEngine.FOLDERS, **deep}  # type: ignore[misc]
    driver = await drive()
    picker = await opened(driver)
    await driver.pilot.press("ctrl+f")
    await driver.until(lambda: getattr(driver.app.screen, "dialog_title", "") == "Go to")
    await driver.pilot.press(*"owlba", "enter")
    await driver.until(lambda: picker.folder == "/photos/owl")
    assert picker.current["name"] == "barn"  # type: ignore[index]
    await driver.pilot.press("ctrl+f")  # from there
    await driver.until(lambda: getattr(driver.app.screen, "dialog_title", "") == "Go to")
    assert "/photos/owl/barn/night" in driver.app.screen.options  # type: ignore[attr-defined]
    assert "/photos/wren" not in driver.app.screen.options  # type: ignore[attr-defined]
    await driver.pilot.press("escape", "escape")
    await driver.keys()


async def test_many_bad_paths_are_one_message(driver: Driver) -> None:
    await driver.app.workspace.classes_pane.add_now([f"/nowhere/{number}" for number in range(250)])
    await driver.idle()
    (note,) = driver.notes
    assert note == "/nowhere/0: No such file or directory; and 249 others   b: list them"
    assert len(driver.app.controller.problems) == 251  # with a photo of the opened folder


async def test_a_field_shows_the_end_of_a_long_pasted_text(driver: Driver) -> None:
    await driver.pilot.press("A")
    await driver.until(lambda: isinstance(driver.app.screen, AskText))
    field = driver.app.screen.query_one(Input)
    field.post_message(events.Paste("a" * 200 + "/end"))
    await driver.until(lambda: field.render_line(0).text.rstrip().endswith("/end"))
    field.post_message(events.Paste("b" * 200))  # and closing at once is harmless
    await driver.pilot.press("escape")
    await driver.idle()
