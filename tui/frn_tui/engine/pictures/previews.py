"""Images for the terminal: whole photos, with a frame around the model's input, plain or with an error map."""

from collections.abc import Sequence
from math import sqrt

import numpy as np
from PIL import Image

from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform, Pixels
from frn_tui.client.protocol import RenderPreview
from frn_tui.engine.models import Models
from frn_tui.engine.pictures.blocks import dithered, encode
from frn_tui.engine.pictures.decoded_photos import Photos
from frn_tui.engine.pictures.encoding import draw_frame, kitty_data, sixel_rows
from frn_tui.engine.pictures.heat import paint
from frn_tui.engine.worker_queues import Job
from frn_tui.terminal.modes import PARTS, PIXELS
from frn_tui.terminal.rendered_picture import Box, Picture

MAX_PIXELS = 1.5e6
"""Pixel limit of an image for Kitty, which enlarges coarser ones."""
NO_MODEL = EvaluationTransform(size=84)


class Previews:
    """Renders photos."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._photos = Photos()

    def render(self, request: RenderPreview, job: Job) -> Picture:
        if request.mode == "none":
            raise FrnError("preview: unknown drawing mode 'none'")
        room, is_pixels = (request.columns, request.rows), request.mode in PIXELS
        across, down = PARTS.get(request.mode, request.cell)
        longest = round(max(room[0] * across, room[1] * down) * request.zoom)
        photo, size = self._photos.get(request.path, longest)
        job.check()
        columns, rows, view = fit(size, room, request.cell, request.zoom, request.centre)
        width, height = columns * across, rows * down
        if request.mode == "kitty":
            scale = min(sqrt(MAX_PIXELS / width / height), 1.0)
            width, height = round(width * scale), round(height * scale)
        pixels = _cut(photo, view, width, height)
        opened = self._models.opened
        seen = (opened.transform if opened else NO_MODEL).seen(size)
        box = _within(seen, view)
        if request.look != "photo" and request.heat is not None:
            pixels = paint(pixels, request.heat, box, bare=request.look == "map")
        if request.framed and is_pixels:
            pixels = draw_frame(pixels, box)
        if request.palette and not is_pixels:
            pixels = dithered(pixels, request.palette)
        cells, data = b"", ""
        if request.mode == "kitty":
            data = kitty_data(pixels)
        elif request.mode == "sixel":
            data = "\n".join(map("\t".join, sixel_rows(pixels, rows, request.cell[0], request.colours)))
        else:
            cells = encode(pixels, request.mode)
        return Picture(request.mode, columns, rows, cells, size, view, seen, (width, height), data)


def fit(
    size: tuple[int, int], room: tuple[int, int], cell: Sequence[int], zoom: float, centre: list[float]
) -> tuple[int, int, Box]:
    """Return the columns and rows of a photo in an area of the terminal, and its visible part.

    Args:
        size: width and height of the photo.
        room: available columns and rows.
        cell: width and height of a cell; only the ratio matters.
        zoom: 1 shows the whole photo as large as it fits; 2 shows it twice as large, as far as it fits.
        centre: x and y of the photo's point to centre, in fractions of its sides, as far as possible.
    """
    scale = min(cells * side / length for cells, side, length in zip(room, cell, size, strict=True))
    shown, view = [], []
    for length, side, cells, middle in zip(size, cell, room, centre, strict=True):
        whole = min(max(round(length * scale / side), 1), cells) * zoom
        shown.append(min(cells, round(whole)))
        part = min(cells / whole, 1.0)
        first = min(max(middle - part / 2, 0.0), 1 - part)
        view.append((first, first + part))
    (left, right), (top, bottom) = view
    return shown[0], shown[1], (left, top, right, bottom)


def _cut(pixels: Pixels, view: Box, width: int, height: int) -> Pixels:
    """Return a part of a photo, resized."""
    box = tuple(share * side for share, side in zip(view, (pixels.shape[1], pixels.shape[0]) * 2, strict=True))
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.LANCZOS, box=box))


def _within(part: Box, view: Box) -> Box:
    """Convert a part from fractions of the photo to fractions of the view."""
    wide, high = view[2] - view[0], view[3] - view[1]
    left, top, right, bottom = part
    return (left - view[0]) / wide, (top - view[1]) / high, (right - view[0]) / wide, (bottom - view[1]) / high
