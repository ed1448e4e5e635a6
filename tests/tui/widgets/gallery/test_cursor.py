"""Keys, the mouse, the cursor and the selection."""

from frn_tui.widgets.gallery import Gallery, GalleryItem
from textual import events

from tests.tui.widgets.gallery.conftest import HIGH, WIDE, Lines, Play, changes, items, opened, paths, wants


async def test_keys_move_the_cursor(play: Play, gallery: Gallery) -> None:
    pilot, _ = await play(gallery, size=(WIDE, HIGH))
    gallery.focus()
    gallery.set_items(items(30))  # 7 lines of 4 tiles, one of 2
    for key, place in [
        ("right", 1),
        ("down", 5),
        ("left", 4),
        ("up", 0),
        ("up", 0),
        ("left", 0),
        ("pagedown", 8),
        ("pageup", 0),
        ("end", 29),
        ("down", 29),
        ("right", 29),
        ("up", 25),
        ("right", 26),
        ("down", 29),
        ("home", 0),
    ]:
        await pilot.press(key)
        assert gallery.cursor == place, key
        assert gallery.cursor_item == items(30)[place]


async def test_cursor_stays_visible(play: Play, gallery: Gallery, lines: Lines) -> None:
    pilot, _ = await play(gallery, size=(WIDE, HIGH))
    gallery.focus()
    gallery.set_items(items(500))
    for key in ("end", "pageup", "home", "pagedown", "down"):
        await pilot.press(key)
        assert any("›" in line for line in lines(pilot.app)), key
    await pilot.resize_terminal(40, 9)
    assert any("›" in line for line in lines(pilot.app))
    gallery.view = "list"
    await pilot.pause()
    assert any("›" in line for line in lines(pilot.app))


async def test_space_selects_and_moves_on(play: Play, gallery: Gallery) -> None:
    pilot, told = await play(gallery, size=(WIDE, HIGH))
    gallery.focus()
    gallery.set_items(items(5))
    await pilot.press("end", "space", "home", "space", "space")
    assert gallery.selection == paths(0, 1, 4)
    assert changes(told) == 7  # three selections, and four moves of the cursor
    await pilot.press("left", "space")
    assert gallery.selection == paths(0, 4)


async def test_range_selection_follows_the_cursor_keys(play: Play, gallery: Gallery) -> None:
    pilot, _ = await play(gallery, size=(WIDE, HIGH))
    gallery.focus()
    gallery.set_items(items(20))
    await pilot.press("v")
    assert gallery.selection == paths(0)
    await pilot.press("down")
    assert gallery.selection == paths(*range(5))
    await pilot.press("up", "right", "v", "end")
    assert gallery.selection == paths(0, 1)
    await pilot.press("v", "left")
    assert gallery.selection == paths(0, 1, 18, 19)


async def test_cursor_and_selection_stay_with_their_paths(play: Play, gallery: Gallery) -> None:
    pilot, told = await play(gallery, size=(WIDE, HIGH))
    gallery.set_items(items(10))
    gallery.cursor = 6
    gallery.select(paths(2, 6, 8))
    await pilot.pause()
    told.clear()
    gallery.set_items(items(10)[::-1])
    await pilot.pause()
    assert gallery.cursor_item == items(10)[6]
    assert gallery.selection == paths(8, 6, 2)
    gallery.set_items(items(5))
    await pilot.pause()
    assert gallery.cursor == 3  # the previous position of the cursor
    assert gallery.selection == paths(2)
    assert changes(told) == 2
    gallery.set_items([])
    await pilot.pause()
    assert gallery.virtual_size.height == 0
    assert gallery.selection == []
    assert changes(told) == 3


async def test_new_marks_do_not_scroll_back_to_the_cursor(play: Play, gallery: Gallery) -> None:
    pilot, _ = await play(gallery, size=(WIDE, HIGH))
    gallery.set_items(items(100))
    await pilot.pause()
    gallery.scroll_to(y=50, animate=False)
    await pilot.pause()
    gallery.set_items([GalleryItem(item.path, item.name, item.key, "near") for item in items(100)])
    await pilot.pause()
    assert gallery.scroll_offset.y == 50


async def test_keys_do_nothing_without_items(play: Play, gallery: Gallery, lines: Lines) -> None:
    pilot, told = await play(gallery, size=(WIDE, HIGH))
    gallery.focus()
    await pilot.press("up", "down", "left", "right", "pageup", "pagedown", "home", "end")
    await pilot.press("space", "v", "ctrl+a", "enter")
    await pilot.click(gallery, offset=(3, 3))
    assert not told
    assert gallery.cursor_item is None


async def test_the_mouse_moves_selects_and_opens(play: Play, gallery: Gallery) -> None:
    pilot, told = await play(gallery, size=(WIDE, HIGH))
    gallery.set_items(items(8))
    await pilot.pause()
    await pilot.click(gallery, offset=(40, 12))
    assert gallery.cursor == 6
    assert gallery.selection == []
    await pilot.click(gallery, offset=(36, 15), control=True)
    assert gallery.selection == paths(6)
    await pilot.double_click(gallery, offset=(0, 0))
    assert opened(told) == paths(0)
    assert gallery.cursor == 0
    await pilot.double_click(gallery, offset=(0, 0))
    assert opened(told) == paths(0, 0)
    assert gallery.selection == paths(6)


async def test_clicks_follow_the_scroll_position(play: Play, gallery: Gallery) -> None:
    pilot, told = await play(gallery, size=(WIDE, HIGH))
    gallery.set_items(items(100))
    await pilot.pause()
    for _ in range(40):
        gallery.post_message(events.MouseScrollDown(gallery, 1, 1, 0, 0, 0, False, False, False))
    await pilot.pause()
    await pilot.wait_for_scheduled_animations()
    top = gallery.scroll_offset.y
    assert top > 0
    assert gallery.cursor == 0
    assert wants(told)[-1].requests[0].path == paths(top // 8 * 4)[0]
    await pilot.click(gallery, offset=(0, 8))
    assert gallery.cursor == (top + 8) // 8 * 4
