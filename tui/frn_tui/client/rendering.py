"""Pictures asked of the engine: rendered there, drawn here."""

import base64
import binascii
from dataclasses import replace

from frn_tui.client import protocol
from frn_tui.client.client import EngineError
from frn_tui.terminal.modes import PIXELS, Mode
from frn_tui.terminal.pixels import next_number
from frn_tui.terminal.rendered_picture import Box, Picture


async def render(engine: protocol.Engine, request: protocol.RenderPreview) -> Picture | None:
    """A picture, or None if it does not exist."""
    try:
        return read_picture(request.mode, await engine.call(request))
    except EngineError:
        return None


def read_picture(mode: Mode, message: protocol.Picture) -> Picture:
    """A picture from a message; raises ValueError if it is not base64, or not that many cells."""
    width, height = message["photo"]
    view, seen = _box(message["view"]), _box(message["seen"])
    if mode in PIXELS:
        shown = Picture(mode, message["columns"], message["rows"], b"", (width, height), view, seen)
        across, down = message["pixels"]
        return replace(shown, pixels=(across, down), data=message["cells"], number=next_number())
    try:
        cells = base64.b64decode(message["cells"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"a picture that is no base64: {error}") from error
    return Picture(mode, message["columns"], message["rows"], cells, (width, height), view, seen)


def _box(numbers: list[float]) -> Box:
    left, top, right, bottom = numbers
    return left, top, right, bottom
