"""Decoding of image bytes in this process, with limits on pixels and memory."""

import contextlib
import hashlib
import io
import math
from dataclasses import dataclass

import numpy as np
from PIL import Image, JpegImagePlugin, UnidentifiedImageError

from frn.errors import FrnError, shorten
from frn.images import depth, kinds
from frn.images.boxes import Box, box_name
from frn.images.colour import SIDEWAYS, UPRIGHT, shrunk, to_rgb
from frn.images.png_colours import HDR, coding_points, profile_of
from frn.images.transforms import EvaluationTransform

FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "BMP", "GIF", "TIFF", "PPM")
"""Pillow's names of the formats. HEIC is also read if the extra `heif` is installed."""
MAX_PIXELS = 120_000_000
MAX_JPEG_PIXELS = 4 * MAX_PIXELS  # limit for a JPEG; above `MAX_PIXELS` it is decoded `COARSE` times smaller
MAX_MEMORY = 600 << 20  # bytes that a file and its decoded image may take together
LARGE = 24_000_000  # pixels above which this process decodes images one at a time, and above which a box is reduced
COARSE = 4  # factor by which a JPEG is reduced if it needs more than `MAX_MEMORY` or has more than `MAX_PIXELS`
JPEG, JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"
ORIENTATION, STRIP_ROWS, TILE_ROWS = 0x0112, 278, 323  # EXIF and TIFF tags


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeRequest:
    """Requested form of an image: upright RGB of full size, unless a field says otherwise."""

    transform: EvaluationTransform | None = None  # transform whose crop is requested
    also: EvaluationTransform | None = None  # a second one, whose crop is below the first, on the left
    draft: int | None = None  # minimum pixels per side after decoding a JPEG at lower resolution
    longest: int | None = None  # largest length of the longer side, in pixels
    stored: bool = False  # whether to keep the stored orientation, and grey and RGB colours with their profile
    box: Box | None = None
    """Requested part, in pixels of the whole upright photo; reduced by a whole factor if it has more than `LARGE`."""

    def finish(self, image: Image.Image, orientation: int, full: tuple[int, int], where: str) -> Image.Image:
        """Convert a decoded image to the requested form; `full` is the size of the whole upright photo.

        Raises FrnError if the requested part has no pixel.
        """
        if self.box is not None:
            edges = left, top, right, bottom = _within(image, orientation, self.box, full, where)
            pixels = (right - left) * (bottom - top)
            factor = math.ceil(math.sqrt(4 * pixels / LARGE)) if pixels > LARGE else 1
            return to_rgb(image, edges, orientation, factor)
        if self.transform is not None:
            crop = self.transform(image, orientation)
            if self.also is None:
                return Image.fromarray(crop)
            second = self.also(image, orientation)
            both = np.zeros((len(crop) + len(second), max(len(crop), len(second)), 3), np.uint8)  # they are squares
            both[: len(crop), : len(crop)], both[len(crop) :, : len(second)] = crop, second
            return Image.fromarray(both)
        if self.longest is not None:
            return shrunk(image, orientation, self.longest)
        if self.stored:
            if image.mode not in ("L", "RGB") or "transparency" in image.info:
                return to_rgb(image)
            image.info["icc_profile"] = profile_of(image, image.mode)
            return image
        return upright_rgb(image)


def decode_in_process(
    data: bytes,
    where: str,
    request: DecodeRequest,
    alone: contextlib.AbstractContextManager[object] = contextlib.nullcontext(),  # noqa: B008
) -> tuple[Image.Image, tuple[int, int]]:
    """Return the requested image, and the size of the whole upright one; a large image is decoded within `alone`."""
    if kind := kinds.describe(data, where):
        raise FrnError(f"{where}: is {kind}")
    try:
        with _opened(data) as image:
            width, height = image.size
            most = MAX_JPEG_PIXELS if image.format == "JPEG" else MAX_PIXELS
            if width * height > most:
                raise FrnError(
                    f"{where}: is {width} x {height} pixels; the limit is {most // 1_000_000} megapixels. "
                    "Scale it down."
                )
            with alone if width * height > LARGE else contextlib.nullcontext():
                if request.draft is not None:
                    image.draft(None, (request.draft, request.draft))
                elif width * height > MAX_PIXELS or len(data) + _memory(image, width * height) > MAX_MEMORY:
                    image.draft(None, (width // COARSE, height // COARSE))
                if (needed := len(data) + _memory(image, width * height)) > MAX_MEMORY:
                    raise FrnError(
                        f"{where}: decoding {width} x {height} pixels of this kind of {image.format} takes "
                        f"{needed >> 20} MiB; the limit is {MAX_MEMORY >> 20} MiB. Scale it down."
                    )
                raw = depth.raw_mode(image)
                image.load()
                image.info["cicp"] = points = coding_points(data) if image.format == "PNG" else None
                if points and (curve := HDR.get(points[1])):
                    depth.say(f"an image has the HDR curve {curve}: its colours are read as sRGB. Save it without HDR.")
                depth.match_key(image, raw)
                orientation = _orientation(image)
                if orientation in SIDEWAYS:
                    width, height = height, width
                full = width, height
                return request.finish(depth.rescale(image, raw, data), orientation, full, where), full
    except FrnError:
        raise
    except UnidentifiedImageError as error:
        raise FrnError(f"{where}: is not an image in a known format ({', '.join(FORMATS)}, HEIC)") from error
    except Image.DecompressionBombError as error:
        raise FrnError(f"{where}: has too many pixels; the limit is {MAX_PIXELS // 1_000_000} megapixels") from error
    except MemoryError as error:
        raise FrnError(
            f"{where}: there is not enough memory to decode it. Free some memory, or scale the image down."
        ) from error
    except Exception as error:  # Pillow's decoders may raise anything for a damaged file
        if lacks_only_its_end(data):
            return decode_in_process(data + JPEG_END, where, request, alone)
        raise FrnError(f"{where}: is damaged and cannot be decoded ({shorten(error)})") from error


def _within(
    image: Image.Image, orientation: int, box: Box, full: tuple[int, int], where: str
) -> tuple[int, int, int, int]:
    """Return the edges of a box in pixels of the upright decoded image, which may be smaller than the whole photo."""
    right, bottom = min(box.left + box.width, full[0]), min(box.top + box.height, full[1])
    if box.left >= right or box.top >= bottom:
        raise FrnError(f"{box_name(where, box)}: the box has no pixel of the photo, which is {full[0]} x {full[1]}")
    width, height = image.size if orientation not in SIDEWAYS else image.size[::-1]
    x, y = width / full[0], height / full[1]
    ends = max(round(right * x), int(box.left * x) + 1), max(round(bottom * y), int(box.top * y) + 1)
    return int(box.left * x), int(box.top * y), *ends


def _opened(data: bytes) -> Image.Image:
    if data.startswith(JPEG):  # no pixel limit of Pillow's own; an MPO is opened as its first JPEG
        return JpegImagePlugin.JpegImageFile(io.BytesIO(data))
    if kinds.is_heif(data):
        kinds.register_heif()
        return Image.open(io.BytesIO(data), formats=[kinds.HEIF])
    return Image.open(io.BytesIO(data), formats=FORMATS)


def lacks_only_its_end(data: bytes) -> bool:
    """Return whether a JPEG that cannot be decoded has all of its pixels and lacks only the end marker.

    If nothing is missing, bytes inserted before an added marker change no pixel; otherwise they fill missing pixels.
    """
    if not data.startswith(JPEG) or data.endswith(JPEG_END):
        return False
    seen = set()
    for rest in (b"", b"\x55" * 64, b"\xaa" * 64):
        try:
            with JpegImagePlugin.JpegImageFile(io.BytesIO(data + rest + JPEG_END)) as image:
                if image.width * image.height > MAX_PIXELS:
                    image.draft(None, (image.width // COARSE, image.height // COARSE))
                seen.add(hashlib.sha256(image.tobytes()).digest())
        except Exception:  # Pillow's decoders may raise anything for a damaged file
            return False
    return len(seen) == 1


def _memory(image: Image.Image, pixels: int) -> int:
    """Estimate the peak memory of decoding from the header; `pixels` is the file's pixel count."""
    # Bytes of the pointers that Pillow keeps per row, for the decoded image and for the RGB one
    decoded = (4 * image.width + 16) * image.height
    if image.format in ("WEBP", "AVIF", kinds.HEIF):  # the image, the decoder's planes, and copies of them
        return 4 * decoded
    if image.info.get("progressive"):  # all coefficients of the JPEG, two bytes each
        sampling = [(across, down) for _, across, down, _ in getattr(image, "layer", ())]
        densest = max(across for across, _ in sampling) * max(down for _, down in sampling)
        return decoded + 2 * pixels * sum(across * down for across, down in sampling) // densest
    if image.format == "TIFF" and image.info.get("compression") != "raw":  # one strip or row of tiles at a time
        tags = getattr(image, "tag_v2", {})
        return decoded + 4 * image.width * min(tags.get(TILE_ROWS) or tags.get(STRIP_ROWS, pixels), image.height)
    return decoded


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation; 1 (upright) if the metadata is damaged, since the pixels are still valid."""
    try:
        return image.getexif().get(ORIENTATION, 1)
    except Exception:  # Pillow's parsers may raise anything
        return 1


def upright_rgb(image: Image.Image) -> Image.Image:
    """Convert a whole image of any mode to upright sRGB, using its EXIF tag and profile."""
    image, orientation = to_rgb(image), _orientation(image)
    return image.transpose(UPRIGHT[orientation]) if orientation in UPRIGHT else image
