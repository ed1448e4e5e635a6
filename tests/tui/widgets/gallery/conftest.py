"""A gallery and the messages that it sends."""

from collections.abc import Callable
from typing import Any

import pytest
from frn_tui.client.protocol import RenderPreview
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.widgets.gallery import Gallery, GalleryItem
from frn_tui.widgets.preview import PicturesWanted
from rich.style import Style
from textual.app import App
from textual.message import Message

Play = Callable[..., Any]
Lines = Callable[[App[Any]], list[str]]
Styles = Callable[[App[Any]], list[list[Style]]]
Told = list[Message]

WIDE, HIGH = 72, 16  # four columns (the scroll bar takes two cells), two lines of tiles


def items(count: int, first: int = 0) -> list[GalleryItem]:
    return [GalleryItem(f"/photos/{i:05d}.jpg", f"{i:05d}.jpg", f"key{i}") for i in range(first, first + count)]


def paths(*numbers: int) -> list[str]:
    return [f"/photos/{i:05d}.jpg" for i in numbers]


def wants(told: Told) -> list[PicturesWanted]:
    return [message for message in told if isinstance(message, PicturesWanted)]


def changes(told: Told) -> int:
    return sum(isinstance(message, Gallery.Changed) for message in told)


def opened(told: Told) -> list[str]:
    return [message.item.path for message in told if isinstance(message, Gallery.Opened)]


@pytest.fixture
def gallery() -> Gallery:
    made = Gallery(mode="half")
    made.set_reactive(Gallery.tile_width, 16)
    return made


def picture(path: str, colour: bytes = bytes(3), mode: Mode = "half") -> tuple[RenderPreview, Picture]:
    """Request a tile from the gallery above, and return the result."""
    return RenderPreview(path, 16, 7, mode), Picture(mode, 16, 7, (2 * colour) * 16 * 7)


def asked(want: PicturesWanted) -> list[str]:
    return [request.path for request in want.requests]
