"""Images for the terminal: requested by widgets, rendered by the engine, drawn by the app."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from textual.message import Message

from frn_tui.client.protocol import Engine, EngineError, RenderPreview
from frn_tui.terminal.pixels import next_number
from frn_tui.terminal.rendered_picture import Picture


class ShowsPictures(Protocol):
    """A widget that shows images."""

    @property
    def is_attached(self) -> bool: ...

    def provide(self, request: RenderPreview, picture: Picture | None) -> None:
        """Accept an image, or None if it could not be rendered."""


@dataclass
class PicturesWanted(Message):
    """A widget lacks these images; its earlier requests no longer need an answer."""

    widget: ShowsPictures
    requests: Sequence[RenderPreview]


async def render(engine: Engine, request: RenderPreview) -> Picture | None:
    """Request an image; return None if it cannot be rendered."""
    try:
        picture = await engine.call(request)
    except EngineError:
        return None
    return numbered(picture)


def numbered(picture: Picture) -> Picture:
    """Return the image with the number by which the terminal refers to it, if it consists of pixels."""
    return replace(picture, number=next_number()) if picture.is_pixels else picture
