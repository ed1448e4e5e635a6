import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
from frn_tui.rgb import Rgb
from frn_tui.widgets.cells import Mode
from frn_tui.widgets.gallery import Gallery, GalleryItem
from rich.style import Style
from textual import events
from textual.app import App
from textual.message import Message
from textual.pilot import Pilot

Play = Callable[..., None]
Lines = Callable[[App[Any]], list[str]]
Styles = Callable[[App[Any]], list[list[Style]]]
Told = list[Message]

WIDE, HIGH = 72, 18
"""Four columns (the scroll bar takes two cells), two lines of tiles."""


def items(count: int, first: int = 0) -> list[GalleryItem]:
    return [GalleryItem(f"/photos/{i:05d}.jpg", f"{i:05d}.jpg", f"key{i}") for i in range(first, first + count)]


def paths(*numbers: int) -> list[str]:
    return [f"/photos/{i:05d}.jpg" for i in numbers]


def wants(told: Told) -> list[Gallery.Want]:
    return [message for message in told if isinstance(message, Gallery.Want)]


def choices(told: Told) -> list[list[str]]:
    return [message.paths for message in told if isinstance(message, Gallery.SelectionChanged)]


def opened(told: Told) -> list[str]:
    return [message.item.path for message in told if isinstance(message, Gallery.Opened)]


@pytest.fixture
def gallery() -> Gallery:
    return Gallery(mode="half")


def test_only_visible_pictures_are_asked_for(play: Play, gallery: Gallery) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.set_items(items(1000))
        await pilot.pause()
        assert [(want.paths, want.width, want.height) for want in wants(told)] == [(paths(*range(8)), 16, 16)]
        gallery.scroll_to(y=9 * 100, animate=False)
        await pilot.pause()
        assert wants(told)[-1].paths == paths(*range(400, 408))

    play(gallery, scenario, size=(WIDE, HIGH))


def test_what_came_or_is_on_its_way_is_not_asked_for_again(play: Play, gallery: Gallery) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.set_items(items(100))
        await pilot.pause()
        gallery.provide(paths(0)[0], Rgb(16, 16, bytes(768)))
        gallery.set_items(items(100))
        await pilot.pause()
        assert len(wants(told)) == 1
        gallery.mode = "quad"
        await pilot.pause()
        assert [(want.width, want.height) for want in wants(told)] == [(16, 16), (32, 16)]
        gallery.mode = "ascii"
        await pilot.pause()
        assert (wants(told)[-1].width, wants(told)[-1].height) == (16, 8)

    play(gallery, scenario, size=(WIDE, HIGH))


def test_broken_files_and_the_list_need_no_pictures(play: Play, gallery: Gallery) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.set_items([GalleryItem("/a", "a", None, "broken", "no image"), *items(1)])
        await pilot.pause()
        assert wants(told)[-1].paths == paths(0)
        gallery.view = "list"
        gallery.set_items(items(50))
        await pilot.pause()
        assert len(wants(told)) == 1

    play(gallery, scenario, size=(WIDE, HIGH))


def test_a_file_that_has_changed_is_asked_for_again(play: Play, gallery: Gallery) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.set_items(items(2))
        for path in paths(0, 1):
            gallery.provide(path, Rgb(16, 16, bytes(768)))
        await pilot.pause()
        before = len(wants(told))
        gallery.set_items([GalleryItem(paths(0)[0], "new", "another key"), *items(1, first=1)])
        gallery.scroll_to(y=0, animate=False)
        await pilot.pause()
        assert [want.paths for want in wants(told)[before:]] == [paths(0)]

    play(gallery, scenario, size=(WIDE, HIGH))


def test_a_picture_appears_in_its_tile(play: Play, gallery: Gallery, styles: Styles) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.set_items(items(8))
        gallery.provide(paths(5)[0], Rgb(16, 16, bytes([0, 255, 0]) * 256))
        await pilot.pause()
        seen = styles(pilot.app)
        green = {
            (x, y)
            for y, line in enumerate(seen)
            for x, style in enumerate(line)
            if style.bgcolor and style.bgcolor.triplet == (0, 255, 0)
        }
        assert green == {(17 + x, 9 + y) for x in range(16) for y in range(8)}

    play(gallery, scenario, size=(WIDE, HIGH))


def test_names_stand_below_the_tiles_with_their_marks(play: Play, gallery: Gallery, lines: Lines) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.set_items(
            [
                GalleryItem("/a", "first.jpg"),
                GalleryItem("/b", "a_very_long_file_name.jpg", mark="near"),
                GalleryItem("/c", "c.jpg", mark="outlier"),
                GalleryItem("/d", "d.jpg", mark="broken"),
            ]
        )
        gallery.select(["/b"])
        await pilot.pause()
        row = lines(pilot.app)[8]
        assert [row[x : x + 17].rstrip() for x in (0, 17, 34, 51)] == [
            "›first.jpg",
            " ✓≈a_very…me.jpg",
            " !c.jpg",
            " ⚠d.jpg",
        ]
        assert "broken" in lines(pilot.app)[3]
        gallery.mode = "ascii"
        await pilot.pause()
        assert lines(pilot.app)[8].startswith(">first.jpg        *~a_very")

    play(gallery, scenario, size=(WIDE, HIGH))


def test_the_list_has_a_line_per_item_with_its_note(play: Play, gallery: Gallery, lines: Lines) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.view = "list"
        gallery.set_items([GalleryItem("/a", "a.jpg", mark="broken", note="image file is truncated"), *items(50)])
        await pilot.pause()
        assert lines(pilot.app)[0].rstrip() == "›⚠a.jpg" + " " * 38 + "  image file is truncated"
        assert lines(pilot.app)[1].startswith(" 00000.jpg ")
        await pilot.press("down", "down")
        assert lines(pilot.app)[2].startswith("›00001.jpg ")

    play(gallery, scenario, size=(WIDE, HIGH))


def test_without_pictures_it_is_always_a_list(play: Play, gallery: Gallery, lines: Lines) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.mode = "none"
        gallery.set_items(items(5))
        await pilot.pause()
        assert lines(pilot.app)[4].startswith(" 00004.jpg")
        assert not wants(told)

    play(gallery, scenario, size=(WIDE, HIGH))


def test_keys_move_the_cursor(play: Play, gallery: Gallery) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.focus()
        gallery.set_items(items(30))  # 7 lines of 4, one of 2
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

    play(gallery, scenario, size=(WIDE, HIGH))


def test_the_cursor_is_always_in_sight(play: Play, gallery: Gallery, lines: Lines) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
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

    play(gallery, scenario, size=(WIDE, HIGH))


def test_space_selects_and_moves_on(play: Play, gallery: Gallery) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.focus()
        gallery.set_items(items(5))
        await pilot.press("end", "space", "home", "space", "space")
        assert gallery.selection == paths(0, 1, 4)
        assert choices(told) == [paths(4), paths(0, 4), paths(0, 1, 4)]
        await pilot.press("left", "space")
        assert gallery.selection == paths(0, 4)

    play(gallery, scenario, size=(WIDE, HIGH))


def test_a_range_goes_from_the_item_selected_last_to_the_cursor(play: Play, gallery: Gallery) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.focus()
        gallery.set_items(items(20))
        await pilot.press("v")
        assert gallery.selection == paths(0)
        await pilot.press("down", "space", "down", "v")
        assert gallery.selection == paths(0, *range(4, 10))
        await pilot.press("end", "space", "up", "v")
        assert gallery.selection == paths(0, *range(4, 10), *range(15, 20))

    play(gallery, scenario, size=(WIDE, HIGH))


def test_all_and_none(play: Play, gallery: Gallery) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.focus()
        gallery.set_items(items(20))
        await pilot.press("space", "ctrl+a")
        assert gallery.selection == paths(*range(20))
        await pilot.press("ctrl+a")
        assert gallery.selection == []

    play(gallery, scenario, size=(WIDE, HIGH))


def test_cursor_and_selection_stay_with_their_paths(play: Play, gallery: Gallery) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
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
        assert gallery.cursor == 3  # where the cursor was
        assert choices(told)[-1] == paths(2)
        gallery.set_items([])
        await pilot.pause()
        assert not gallery.items
        assert choices(told)[-1] == []

    play(gallery, scenario, size=(WIDE, HIGH))


def test_new_marks_do_not_scroll_back_to_the_cursor(play: Play, gallery: Gallery) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.set_items(items(100))
        await pilot.pause()
        gallery.scroll_to(y=50, animate=False)
        await pilot.pause()
        gallery.set_items([GalleryItem(item.path, item.name, item.key, "near") for item in items(100)])
        await pilot.pause()
        assert gallery.scroll_offset.y == 50

    play(gallery, scenario, size=(WIDE, HIGH))


def test_keys_do_nothing_without_items(play: Play, gallery: Gallery, lines: Lines) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.focus()
        await pilot.press("up", "down", "left", "right", "pageup", "pagedown", "home", "end")
        await pilot.press("space", "v", "ctrl+a", "enter")
        await pilot.click(gallery, offset=(3, 3))
        assert not told
        assert gallery.cursor_item is None

    play(gallery, scenario, size=(WIDE, HIGH))


def test_enter_opens(play: Play, gallery: Gallery) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.focus()
        gallery.set_items(items(5))
        await pilot.press("right", "enter")
        assert opened(told) == paths(1)

    play(gallery, scenario, size=(WIDE, HIGH))


def test_the_mouse_moves_selects_and_opens(play: Play, gallery: Gallery) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.set_items(items(8))
        await pilot.pause()
        await pilot.click(gallery, offset=(40, 12))
        assert gallery.cursor == 6
        assert gallery.selection == []
        await pilot.click(gallery, offset=(36, 17))
        assert gallery.selection == paths(6)
        await pilot.double_click(gallery, offset=(0, 0))
        assert opened(told) == paths(0)
        assert gallery.cursor == 0
        await pilot.double_click(gallery, offset=(0, 0))
        assert opened(told) == paths(0, 0)
        assert gallery.selection == paths(6)

    play(gallery, scenario, size=(WIDE, HIGH))


def test_the_wheel_scrolls_and_clicks_count_from_there(play: Play, gallery: Gallery) -> None:
    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.set_items(items(100))
        await pilot.pause()
        for _ in range(40):
            gallery.post_message(events.MouseScrollDown(gallery, 1, 1, 0, 0, 0, False, False, False))
        await pilot.pause()
        await pilot.wait_for_scheduled_animations()
        top = gallery.scroll_offset.y
        assert top > 0
        assert gallery.cursor == 0
        assert wants(told)[-1].paths[0] == paths(top // 9 * 4)[0]
        await pilot.click(gallery, offset=(0, 9))
        assert gallery.cursor == (top + 9) // 9 * 4

    play(gallery, scenario, size=(WIDE, HIGH))


@pytest.mark.parametrize("mode", ["half", "quad", "ascii", "none"])
def test_every_mode_fills_every_size(play: Play, lines: Lines, mode: Mode) -> None:
    gallery = Gallery(mode=mode)

    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.set_items([*items(30), GalleryItem("/x", "x", None, "broken", "why " * 30)])
        gallery.provide(paths(0)[0], Rgb(5, 3, bytes(range(45))))
        for size in ((80, 24), (40, 12), (20, 5), (3, 2), (1, 1), (200, 60)):
            await pilot.resize_terminal(*size)
            assert [len(line) for line in lines(pilot.app)] == [size[0]] * size[1]

    play(gallery, scenario)


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light", "ansi-dark", "ansi-light"])
def test_no_color_gives_ascii_without_a_crash(
    play: Play, lines: Lines, monkeypatch: pytest.MonkeyPatch, theme: str
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    gallery = Gallery(mode="ascii")

    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.set_items(items(9))
        gallery.provide(paths(0)[0], Rgb(16, 8, bytes(range(128)) * 3))
        await pilot.pause()
        assert "@" in lines(pilot.app)[0 if "light" in theme else 7]

    play(gallery, scenario, theme=theme)


@pytest.mark.parametrize("view", ["grid", "list"])
def test_evil_names_stay_in_their_cells(play: Play, lines: Lines, view: Any) -> None:
    names = ["\x1b[2J.jpg", "a\nb.jpg", "\u202egpj", "[bold red]m[x].jpg", "\udcff.jpg", "🦜" * 20, "\x9b", "\u200b"]
    gallery = Gallery(mode="half")

    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.view = view
        gallery.set_items([GalleryItem(name, name, note=name) for name in names])
        await pilot.press("ctrl+a")
        seen = lines(pilot.app)
        assert all(char.isprintable() for line in seen for char in line)
        assert any("[bold red]" in line or "[bold" in line for line in seen)

    play(gallery, scenario, size=(WIDE, HIGH))


def scroll(play: Play, count: int) -> tuple[float, int]:
    """Ten pages down so many items: median processor time of a page, and how often pictures were asked for."""
    gallery = Gallery(mode="half")
    result = []

    async def scenario(pilot: Pilot[None], told: Told) -> None:
        gallery.focus()
        gallery.set_items(items(count))
        await pilot.pause()
        pages = []
        for _ in range(10):
            start = time.process_time()
            await pilot.press("pagedown")
            pages.append(time.process_time() - start)
        result.append((statistics.median(pages), len(wants(told))))
        assert all(len(want.paths) <= 12 for want in wants(told))

    play(gallery, scenario, size=(WIDE, HIGH))
    return result[0]


def test_ten_thousand_items_ask_for_the_pictures_that_are_seen(play: Play) -> None:
    _, asked = scroll(play, 10_000)
    assert asked <= 11


@pytest.mark.slow
def test_ten_thousand_items_scroll_as_fast_as_a_hundred(play: Play) -> None:
    few, many = (scroll(play, count)[0] for count in (200, 10_000))
    assert many < 3 * few + 0.005
