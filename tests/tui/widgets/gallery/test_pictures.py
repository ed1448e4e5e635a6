"""Images that the gallery requests, and its appearance."""

from typing import Any

import pytest
from frn_tui.client.protocol import RenderPreview
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.widgets.gallery import SMALL_TILE, Gallery, GalleryItem, Grid, tiled
from textual.geometry import Region, Size

from tests.tui.widgets.gallery.conftest import HIGH, WIDE, Lines, Play, Styles, asked, items, paths, picture, wants


async def test_only_visible_images_are_requested(play: Play, gallery: Gallery) -> None:
    pilot, told = await play(gallery, size=(WIDE, HIGH))
    gallery.set_items(items(1000))
    await pilot.pause()
    assert [want.requests for want in wants(told)] == [
        [RenderPreview(path, 16, 7, "half") for path in paths(*range(8))]
    ]
    gallery.scroll_to(y=8 * 100, animate=False)
    await pilot.pause()
    assert asked(wants(told)[-1]) == paths(*range(400, 408))


async def test_pending_and_received_images_are_not_requested_again(play: Play, gallery: Gallery) -> None:
    pilot, told = await play(gallery, size=(WIDE, HIGH))
    gallery.set_items(items(100))
    await pilot.pause()
    gallery.provide(*picture(paths(0)[0]))
    gallery.set_items(items(100))
    await pilot.pause()
    assert len(wants(told)) == 1
    gallery.mode = "kitty"
    await pilot.pause()
    assert [want.requests[0].mode for want in wants(told)] == ["half", "kitty"]


async def test_broken_files_and_the_list_request_no_images(play: Play, gallery: Gallery) -> None:
    pilot, told = await play(gallery, size=(WIDE, HIGH))
    gallery.set_items([GalleryItem("/a", "a", None, "broken", "no image"), *items(1)])
    await pilot.pause()
    assert asked(wants(told)[-1]) == paths(0)
    gallery.view = "list"
    gallery.set_items(items(50))
    await pilot.pause()
    assert len(wants(told)) == 1


async def test_a_picture_is_requested_again_if_an_old_size_or_an_old_content_came_last(
    play: Play, gallery: Gallery
) -> None:
    pilot, told = await play(gallery, size=(WIDE, HIGH))
    gallery.set_items(items(2))
    await pilot.pause()
    gallery.provide(*picture(paths(0)[0]))
    gallery.tile_width = 30
    await pilot.pause()
    for request in wants(told)[-1].requests:
        gallery.provide(
            request, Picture("half", request.columns, request.rows, bytes(6 * request.columns * request.rows))
        )
    gallery.set_items(items(2))
    await pilot.pause()
    assert len(wants(told)) == 2  # the new pictures have replaced the old one
    gallery.provide(*picture(paths(0)[0]))
    await pilot.pause()
    assert [asked(want) for want in wants(told)[2:]] == [paths(0)]
    gallery.set_items([*items(1), GalleryItem(paths(1)[0], "new", "another key")])
    await pilot.pause()
    assert asked(wants(told)[-1]) == paths(0, 1)


async def test_image_appears_in_its_tile(play: Play, gallery: Gallery, styles: Styles) -> None:
    pilot, _ = await play(gallery, size=(WIDE, HIGH))
    gallery.set_items(items(8))
    gallery.provide(*picture(paths(5)[0], bytes([0, 255, 0])))
    await pilot.pause()
    seen = styles(pilot.app)
    green = {
        (x, y)
        for y, line in enumerate(seen)
        for x, style in enumerate(line)
        if style.bgcolor and style.bgcolor.triplet == (0, 255, 0)
    }
    assert green == {(17 + x, 8 + y) for x in range(16) for y in range(7)}


async def test_names_and_marks_are_below_the_tiles(play: Play, gallery: Gallery, lines: Lines) -> None:
    pilot, _ = await play(gallery, size=(WIDE, HIGH))
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
    row = lines(pilot.app)[7]
    assert [row[x : x + 17].rstrip() for x in (0, 17, 34, 51)] == [
        "›first.jpg",
        " ✓≈a_very…me.jpg",
        " !c.jpg",
        " ⚠d.jpg",
    ]
    assert "broken" in lines(pilot.app)[2]


async def test_the_list_shows_a_line_per_item_with_its_note(play: Play, gallery: Gallery, lines: Lines) -> None:
    pilot, _ = await play(gallery, size=(WIDE, HIGH))
    gallery.view = "list"
    gallery.set_items([GalleryItem("/a", "a.jpg", mark="broken", note="image file is truncated"), *items(50)])
    await pilot.pause()
    assert lines(pilot.app)[0].rstrip() == "›⚠a.jpg" + " " * 38 + "  image file is truncated"
    assert lines(pilot.app)[1].startswith(" 00000.jpg ")
    await pilot.press("down", "down")
    assert lines(pilot.app)[2].startswith("›00001.jpg ")


async def test_gallery_without_images_is_shown_as_a_list(play: Play, gallery: Gallery, lines: Lines) -> None:
    pilot, told = await play(gallery, size=(WIDE, HIGH))
    gallery.mode = "none"
    gallery.set_items(items(5))
    await pilot.pause()
    assert lines(pilot.app)[4].startswith(" 00004.jpg")
    assert not wants(told)


TEN = Grid(10, 4, Size(17, 9))  # 4 + 4 + 2


def test_each_item_is_found_at_its_position() -> None:
    assert TEN.height == 27
    for index in range(TEN.count):
        region = TEN.region(index)
        for x, y in (region.offset, region.bottom_right - (1, 1)):
            assert TEN.at(x, y) == index
    assert TEN.region(5) == Region(17, 9, 17, 9)


def test_photos_of_all_classes_fill_a_page_with_sixty() -> None:
    grid = tiled(1000, Size(135, 37), least=SMALL_TILE)
    assert grid.columns * (37 // grid.pitch.height) >= 60
    few = tiled(6, Size(135, 37), least=SMALL_TILE)
    assert few.height <= 37
    assert few.pitch.height > 10


@pytest.mark.parametrize("mode", ["half", "none"])
async def test_every_mode_fills_every_size(play: Play, lines: Lines, mode: Mode) -> None:
    gallery = Gallery(mode=mode)
    pilot, _ = await play(gallery)
    gallery.set_items([*items(30), GalleryItem("/x", "x", None, "broken", "why " * 30)])
    gallery.provide(RenderPreview(paths(0)[0], 5, 3), Picture("half", 5, 3, b"abcdef" * 15))
    for size in ((80, 24), (40, 12), (20, 5), (3, 2), (1, 1), (200, 60)):
        await pilot.resize_terminal(*size)
        assert [len(line) for line in lines(pilot.app)] == [size[0]] * size[1]


@pytest.mark.parametrize("view", ["grid", "list"])
async def test_unusual_names_stay_within_their_cells(play: Play, lines: Lines, view: Any) -> None:
    names = ["\x1b[2J.jpg", "a\nb.jpg", "\u202egpj", "[bold red]m[x].jpg", "\udcff.jpg", "🦜" * 20, "\x9b", "\u200b"]
    gallery = Gallery(mode="half")
    pilot, _ = await play(gallery, size=(WIDE, HIGH))
    gallery.view = view
    gallery.set_items([GalleryItem(name, name, note=name) for name in names])
    await pilot.press("ctrl+a")
    seen = lines(pilot.app)
    assert all(char.isprintable() for line in seen for char in line)
    assert any("[bold red]" in line or "[bold" in line for line in seen)


async def test_ten_thousand_items_request_only_visible_images(play: Play) -> None:
    gallery = Gallery(mode="half")
    pilot, told = await play(gallery, size=(WIDE, HIGH))
    gallery.focus()
    gallery.set_items(items(10_000))
    await pilot.press(*["pagedown"] * 10)
    assert all(len(want.requests) <= 12 for want in wants(told))
    assert len(wants(told)) <= 11
