"""Every size, unusual names, many items."""

from typing import Any

import pytest
from frn_tui.client.protocol import RenderPreview
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.widgets.gallery import Gallery, GalleryItem

from tests.tui.widgets.gallery.conftest import HIGH, WIDE, Lines, Play, items, paths, wants


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
