"""Pictures for the terminal: whole photos, what the network sees of them in a frame, plain or with an error map."""

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
"""Columns and rows of a picture at most."""
MAX_ZOOM = 64
MAX_CELL = 64
"""Pixels of a cell's side at most."""
MAX_PIXELS = 1_500_000
"""Pixel limit of a picture for Kitty, which enlarges what is coarser."""
NO_MODEL = EvaluationTransform(size=84)


@dataclass(frozen=True, slots=True)
class Place:
    """How many cells a picture takes, and which part of the photo it shows, in shares of its sides."""

    columns: int
    rows: int
    view: Box


class Previews:
    """Draws photos."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._photos = Photos()

    def render(self, request: RenderPreview, job: Job) -> Picture:
        room = request.columns, request.rows
        if not all(1 <= side <= MAX_CELLS for side in room):
            raise FrnError(f"preview: columns and rows should be whole numbers from 1 to {MAX_CELLS}, not {room}")
        if (request.mode not in PARTS and request.mode not in PIXELS) or request.mode == "none":
            raise FrnError(f"preview: no picture is drawn as {request.mode!r}")
        if not 1 <= request.zoom <= MAX_ZOOM:
            raise FrnError(f"preview: the zoom should be from 1 to {MAX_ZOOM}, not {request.zoom}")
        if len(request.cell) != 2 or not all(1 <= side <= MAX_CELL for side in request.cell):
            raise FrnError(f"preview: a cell's sides should be from 1 to {MAX_CELL} pixels, not {request.cell}")
        across, down = PARTS.get(request.mode, request.cell)
        photo = self._photos.get(request.path, round(max(room[0] * across, room[1] * down) * request.zoom))
        job.check()
        place = fit(photo.size, room, request.cell, request.zoom, request.centre)
        width, height = place.columns * across, place.rows * down
        if request.mode == "kitty" and width * height > MAX_PIXELS:
            width, height = (round(side * sqrt(MAX_PIXELS / width / height)) for side in (width, height))
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
        current = self._models.current
        return (current.extractor.transform if current else NO_MODEL).seen(size)


def _pixel_data(pixels: Pixels, request: RenderPreview, rows: int) -> str:
    if request.mode == "kitty":
        return kitty_data(pixels)
    return "\n".join("\t".join(row) for row in sixel_rows(pixels, rows, request.cell[0], request.colours))


def fit(size: tuple[int, int], room: tuple[int, int], cell: Sequence[int], zoom: float, centre: list[float]) -> Place:
    """The place of a photo of this (width, height) in a room of (columns, rows).

    Args:
        size: of the photo.
        room: that there is.
        cell: width and height of a cell, of which the ratio counts.
        zoom: 1 shows the whole photo, as large as it fits; 2 twice as large, as much of it as there is room for.
        centre: x and y of the point of the photo to show in the middle, in shares of its sides, as far as it has one.
    """
    scale = min(cells * side / length for cells, side, length in zip(room, cell, size, strict=True))
    shown, view = [], []
    for length, side, cells, middle in zip(size, cell, room, centre, strict=True):
        whole = min(max(round(length * scale / side), 1), cells) * zoom
        shown.append(min(cells, round(whole)))
        part = shown[-1] / whole if whole > cells else 1.0
        first = min(max(middle - part / 2, 0.0), 1 - part)
        view.append((first, first + part))
    (left, right), (top, bottom) = view
    return Place(shown[0], shown[1], (left, top, right, bottom))


def _cut(pixels: Pixels, view: Box, width: int, height: int) -> Pixels:
    """A part of a photo in another size."""
    box = tuple(share * side for share, side in zip(view, (pixels.shape[1], pixels.shape[0]) * 2, strict=True))
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.LANCZOS, box=box))


def _within(part: Box, view: Box) -> Box:
    """A part of the photo by its place in the view."""
    wide, high = view[2] - view[0], view[3] - view[1]
    left, top, right, bottom = part
    return (left - view[0]) / wide, (top - view[1]) / high, (right - view[0]) / wide, (bottom - view[1]) / high
