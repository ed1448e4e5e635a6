"""Images for the terminal: whole photos, with a frame around the model's input, plain or with an error map."""

from collections.abc import Sequence
from dataclasses import dataclass
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
from frn_tui.engine.pictures.heat import Box, paint, read_map
from frn_tui.engine.worker_queues import Job
from frn_tui.terminal.modes import PARTS, PIXELS
from frn_tui.terminal.rendered_picture import Picture

MAX_CELLS = 1024
"""Maximum number of columns or rows of an image."""
MAX_ZOOM = 64
MAX_CELL = 64
"""Largest side of a cell in pixels."""
MAX_PIXELS = 1.5e6
"""Pixel limit of an image for Kitty, which enlarges coarser ones."""
NO_MODEL = EvaluationTransform(size=84)


@dataclass(frozen=True, slots=True)
class Place:
    """Size of an image in cells, and the part of the photo that it shows, in fractions of its sides."""

    columns: int
    rows: int
    view: Box


class Previews:
    """Renders photos."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._photos = Photos()

    def render(self, request: RenderPreview, job: Job) -> Picture:
        room = request.columns, request.rows
        if not all(1 <= side <= MAX_CELLS for side in room):
            raise FrnError(f"preview: columns and rows must be whole numbers from 1 to {MAX_CELLS}, not {room}")
        if (request.mode not in PARTS and request.mode not in PIXELS) or request.mode == "none":
            raise FrnError(f"preview: unknown drawing mode {request.mode!r}")
        if not 1 <= request.zoom <= MAX_ZOOM:
            raise FrnError(f"preview: the zoom must be from 1 to {MAX_ZOOM}, not {request.zoom}")
        if len(request.cell) != 2 or not all(1 <= side <= MAX_CELL for side in request.cell):
            raise FrnError(f"preview: a cell's sides must be from 1 to {MAX_CELL} pixels, not {request.cell}")
        across, down = PARTS.get(request.mode, request.cell)
        photo = self._photos.get(request.path, round(max(room[0] * across, room[1] * down) * request.zoom))
        job.check()
        place = fit(photo.size, room, request.cell, request.zoom, request.centre)
        width, height = place.columns * across, place.rows * down
        if request.mode == "kitty":
            scale = min(sqrt(MAX_PIXELS / width / height), 1.0)
            width, height = round(width * scale), round(height * scale)
        pixels = _cut(photo.pixels, place.view, width, height)
        seen = self._seen(photo.size)
        box = _within(seen, place.view)
        if request.look != "photo" and request.heat is not None:
            errors = read_map(request.heat)
            pixels = paint(pixels, errors, box, smooth=bool(request.heat["smooth"]), bare=request.look == "map")
        if request.framed and request.mode in PIXELS:
            pixels = draw_frame(pixels, box)
        is_pixels = request.mode in PIXELS
        if request.palette and not is_pixels:
            pixels = dithered(pixels, request.palette)
        return Picture(
            request.mode,
            place.columns,
            place.rows,
            b"" if is_pixels else encode(pixels, request.mode),
            photo.size,
            place.view,
            seen,
            (width, height),
            _pixel_data(pixels, request, place.rows) if is_pixels else "",
        )

    def _seen(self, size: tuple[int, int]) -> Box:
        opened = self._models.opened
        return (opened.transform if opened else NO_MODEL).seen(size)


def _pixel_data(pixels: Pixels, request: RenderPreview, rows: int) -> str:
    if request.mode == "kitty":
        return kitty_data(pixels)
    return "\n".join("\t".join(row) for row in sixel_rows(pixels, rows, request.cell[0], request.colours))


def fit(size: tuple[int, int], room: tuple[int, int], cell: Sequence[int], zoom: float, centre: list[float]) -> Place:
    """Return the place of a photo in an area of the terminal.

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
    return Place(shown[0], shown[1], (left, top, right, bottom))


def _cut(pixels: Pixels, view: Box, width: int, height: int) -> Pixels:
    """Return a part of a photo, resized."""
    box = tuple(share * side for share, side in zip(view, (pixels.shape[1], pixels.shape[0]) * 2, strict=True))
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.LANCZOS, box=box))


def _within(part: Box, view: Box) -> Box:
    """Convert a part from fractions of the photo to fractions of the view."""
    wide, high = view[2] - view[0], view[3] - view[1]
    left, top, right, bottom = part
    return (left - view[0]) / wide, (top - view[1]) / high, (right - view[0]) / wide, (bottom - view[1]) / high
