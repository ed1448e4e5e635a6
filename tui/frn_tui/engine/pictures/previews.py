"""Images for the terminal: whole photos, with a frame around the model's input, plain or with an error map."""

from collections.abc import Sequence
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.images.boxes import split_box
from frn.images.opening import decode_whole, read_file
from frn.images.ramp import RAMP
from frn.images.transforms import EvaluationTransform, Pixels
from frn.system.lru import ByteLimitedCache
from frn_tui.client.protocol import Heat, RenderPreview
from frn_tui.engine.models import Models
from frn_tui.engine.pictures.encoding import LINE, dithered, draw_frame, kitty_data, sixel_rows
from frn_tui.engine.pictures.half_blocks import cheapened, encode
from frn_tui.engine.worker_queues import Job
from frn_tui.terminal.modes import PIXELS
from frn_tui.terminal.rendered_picture import WHOLE, Box, Picture

Floats = NDArray[np.float64]

SIDES = (128, 256, 512, 1024, 2048, 4096, 8192)  # sizes in pixels to which the longer side is decoded
NO_MODEL = EvaluationTransform(size=84)


class Previews:
    def __init__(self, models: Models) -> None:
        self._models = models
        self._pixels: ByteLimitedCache[Pixels] = ByteLimitedCache(32 << 20)  # largest cache of pixels in bytes
        self._sizes: dict[object, tuple[int, int]] = {}

    def render(self, request: RenderPreview, job: Job) -> Picture:
        room, is_pixels = (request.columns, request.rows), request.mode in PIXELS
        across, down = request.cell if is_pixels else (1, 2)
        longest = round(max(room[0] * across, room[1] * down) * request.zoom)
        photo, size = self.photo(request.path, longest)
        job.check()
        columns, rows, view = fit(size, room, request.cell, request.zoom, request.centre)
        width, height = columns * across, rows * down
        if request.mode == "kitty":
            # Pixel limit of an image for Kitty, which enlarges coarser ones
            scale = min(sqrt(1.5e6 / width / height), 1.0)
            width, height = round(width * scale), round(height * scale)
        part = tuple(share * side for share, side in zip(view, (photo.shape[1], photo.shape[0]) * 2, strict=True))
        pixels = np.asarray(Image.fromarray(photo).resize((width, height), Image.Resampling.LANCZOS, box=part))
        opened = self._models.opened
        subject = _subject(request.subject, size)
        transform = opened.transform if opened else NO_MODEL
        seen = (transform.whole() if request.views else transform).seen(_pixels(subject, size))
        box = _within(_outside(seen, subject), view)
        if request.look != "photo" and request.heat is not None:
            pixels = paint(pixels, request.heat, box, bare=request.look == "map")
        if request.framed:
            frame = _within(subject, view) if request.subject else box
            pixels = draw_frame(pixels, frame, LINE if is_pixels else 1)
        if not is_pixels:
            pixels = dithered(pixels, request.palette) if request.palette else cheapened(pixels)
        cells, data = b"", ""
        if request.mode == "kitty":
            data = kitty_data(pixels)
        elif request.mode == "sixel":
            data = "\n".join(map("\t".join, sixel_rows(pixels, rows, request.cell[0], request.colours)))
        else:
            cells = encode(pixels)
        return Picture(request.mode, columns, rows, cells, view, (width, height), data, photo=size, crop=box)

    def photo(self, name: str, longest: int) -> tuple[Pixels, tuple[int, int]]:
        """Return the pixels (h, w, 3) of a photo, and the width and height of the file's upright image.

        The longer side has at least `longest` pixels if the file has them. Raises FrnError if the file is damaged.
        """
        path = Path(name)
        wanted = [side for side in SIDES if side >= longest] or SIDES[-1:]
        try:
            status = split_box(path)[0].stat()
        except (OSError, ValueError):  # reading reports the reason
            return decode_whole(read_file(path), path, wanted[0])
        version = name, status.st_size, status.st_mtime_ns
        for side in wanted:
            if (pixels := self._pixels.get((version, side))) is not None:
                return pixels, self._sizes[version]
        pixels, self._sizes[version] = decode_whole(read_file(path), path, wanted[0])
        self._pixels.put((version, wanted[0]), pixels)
        return pixels, self._sizes[version]


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
        needed = min(max(round(length * scale / side), 1), cells) * zoom
        shown.append(min(cells, round(needed)))
        part = min(cells / needed, 1.0)
        first = min(max(middle - part / 2, 0.0), 1 - part)
        view.append((first, first + part))
    (left, right), (top, bottom) = view
    return shown[0], shown[1], (left, top, right, bottom)


def _subject(box: Sequence[int], size: tuple[int, int]) -> Box:
    """Return the edges of a box of a photo of this (width, height), in fractions; without one, of the whole photo."""
    if not box:
        return WHOLE
    (left, top, wide, high), (width, height) = box, size
    return left / width, top / height, min((left + wide) / width, 1.0), min((top + high) / height, 1.0)


def _pixels(part: Box, size: tuple[int, int]) -> tuple[int, int]:
    return max(round((part[2] - part[0]) * size[0]), 1), max(round((part[3] - part[1]) * size[1]), 1)


def _outside(part: Box, view: Box) -> Box:
    """Convert a part from fractions of the view to fractions of the photo."""
    wide, high = view[2] - view[0], view[3] - view[1]
    left, top, right, bottom = part
    return view[0] + left * wide, view[1] + top * high, view[0] + right * wide, view[1] + bottom * high


def _within(part: Box, view: Box) -> Box:
    """Convert a part from fractions of the photo to fractions of the view."""
    wide, high = view[2] - view[0], view[3] - view[1]
    left, top, right, bottom = part
    return (left - view[0]) / wide, (top - view[1]) / high, (right - view[0]) / wide, (bottom - view[1]) / high


def paint(pixels: Pixels, heat: Heat, seen: Box, *, bare: bool) -> Pixels:
    """Draw an error map's colours over a photo.

    Args:
        pixels: photo, (h, w, 3).
        heat: error map; `smooth` blends between its locations instead of drawing them as blocks.
        seen: part of the photo that the map covers, in fractions of its sides; may reach beyond it.
        bare: draw only the colours; otherwise the photo is more visible for smaller errors.
    """
    (left, top, right, bottom), smooth = seen, heat["smooth"]
    errors, span = np.asarray(heat["map"], dtype=np.float64) - heat["low"], heat["high"] - heat["low"]
    errors = np.clip(errors / span, 0, 1) if span > 0 else np.zeros(errors.shape)
    across = _weights(pixels.shape[1], left, right, errors.shape[1], smooth=smooth)
    down = _weights(pixels.shape[0], top, bottom, errors.shape[0], smooth=smooth)
    level = down @ errors @ across.T
    steps = np.linspace(0, 1, len(RAMP))
    colours = np.stack([np.interp(level, steps, channel) for channel in zip(*RAMP, strict=True)], 2)
    inside = np.outer(down.any(1), across.any(1))[..., None]
    # Opacity of the largest error over the photo; explained parts stay visible
    cover = 1.0 if bare else 0.8 * level[..., None]
    rest = 0.3 * pixels if bare else pixels  # brightness outside the model's input beside a bare map
    return np.where(inside, (1 - cover) * pixels + cover * colours, rest).round().astype(np.uint8)


def _weights(length: int, first: float, last: float, cells: int, *, smooth: bool) -> Floats:
    """Return the weight of each cell of a map at each pixel, (length, cells); the map covers fractions of the pixels.

    With `smooth`, weights blend between the centres of two cells, and at a centre its cell has all the weight.
    """
    places = ((np.arange(length) + 0.5) / length - first) / (last - first)
    inside = (places >= 0) & (places < 1)
    at = np.clip(places * cells - 0.5 if smooth else np.floor(places * cells), 0, cells - 1)
    distance = np.clip(np.abs(at[:, None] - np.arange(cells)), 0, 1)
    return inside[:, None] * (1 - distance * distance * (3 - 2 * distance))
