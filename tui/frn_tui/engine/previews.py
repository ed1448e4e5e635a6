"""Pictures for the terminal: the very crop that the network sees, plain or under the colours of an error map."""

import base64
from pathlib import Path

import numpy as np
from PIL import Image

from frn.errors import FrnError
from frn.images import EvaluationTransform, Pixels, decode_preview, read_file
from frn.inference.explanation import overlay
from frn_tui.engine.lru import ByteLimitedLRU
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Job
from frn_tui.protocol import Heat, Picture, RenderPreview

MAX_SIDE = 4096
MAX_CACHED = 32 << 20
"""Bytes of crops to keep."""
NO_MODEL = EvaluationTransform(size=84)


class Previews:
    """Previews. What was decoded is kept for a while, so that another map over the same photo comes at once."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._crops: ByteLimitedLRU[Pixels] = ByteLimitedLRU(MAX_CACHED)

    def render(self, request: RenderPreview, job: Job) -> Picture:
        size = request.width, request.height
        if not all(1 <= side <= MAX_SIDE for side in size):
            raise FrnError(f"preview: a side should be a whole number from 1 to {MAX_SIDE}, not {size}")
        crop = self._crop(request.path)
        job.check()
        picture = Image.fromarray(crop) if request.heat is None else _overlay(crop, request.heat)
        rgb = base64.b64encode(_scale(picture, *size).tobytes()).decode("ascii")
        return {"width": size[0], "height": size[1], "rgb": rgb}

    def _crop(self, name: str) -> Pixels:
        path = Path(name)
        current = self._models.current
        transform = current.extractor.transform if current else NO_MODEL
        try:
            status = path.stat()
        except (OSError, ValueError):  # reading it says why
            return decode_preview(read_file(path), path, transform)[0]
        key = name, status.st_size, status.st_mtime_ns, transform
        crop = self._crops.get(key)
        if crop is None:
            crop, _ = decode_preview(read_file(path), path, transform)
            self._crops.put(key, crop)
        return crop


def _overlay(crop: Pixels, heat: Heat) -> Image.Image:
    try:
        error_map = np.asarray(heat["map"], dtype=np.float64)
        low, high, smooth = float(heat["low"]), float(heat["high"]), bool(heat["smooth"])
    except (KeyError, TypeError, ValueError) as error:
        raise FrnError(f"preview: this is no error map ({error})") from error
    if error_map.ndim != 2 or not np.isfinite(error_map).all():
        raise FrnError(f"preview: an error map has rows and columns of finite numbers, not the shape {error_map.shape}")
    return overlay(crop, error_map, low=low, high=high, smooth=smooth)


def _scale(picture: Image.Image, width: int, height: int) -> Image.Image:
    """Averaged where it shrinks, in blocks where it grows; each direction for itself."""
    for size in ((width, picture.height), (width, height)):
        shrinks = size[0] < picture.width or size[1] < picture.height
        picture = picture.resize(size, Image.Resampling.BOX if shrinks else Image.Resampling.NEAREST)
    return picture
