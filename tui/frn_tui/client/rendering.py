"""Images for the terminal: rendered by the engine, drawn by the app."""

from dataclasses import replace

from frn_tui.client.protocol import Engine, EngineError, RenderPreview
from frn_tui.terminal.pixels import next_number
from frn_tui.terminal.rendered_picture import Picture


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
