"""Open image files: check them, and decode them in this process or in a child.

This module does not need torch. All images that it returns are sRGB, upright, and of bounded size.
"""

import functools
import io
import queue
import threading
import warnings
from pathlib import Path

import numpy as np
from PIL import Image

from frn.errors import FrnError
from frn.images.boxes import split_box
from frn.images.decoding import DecodeRequest, decode_in_process
from frn.images.depth import ShallowDataWarning, say
from frn.images.transforms import EvaluationTransform, Pixels
from frn.system.archives import read_whole
from frn.system.hardware import cores
from frn.system.processes.forks import after_fork
from frn.system.processes.messages import Message, convert
from frn.system.processes.sandbox import Reply, SandboxedWorker, WorkerKilledError

MAX_PHOTO_BYTES = 256 * 1024 * 1024
QUICK_BYTES = 8 << 20  # size limit of files decoded in this process: a header may have a million entries, read singly
QUICK = (b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a")
JPEG, JPEG_SCAN = b"\xff\xd8\xff", b"\xff\xda"

SECONDS = 8.0  # time limit for one image in seconds; 120 megapixels of compressed TIFF take one or two
MEMORY = 1536 << 20  # memory limit for a child: the bytes that `frn.images` allows a file, plus the converted image
MAX_WORKERS = 4

_LARGE = threading.RLock()


def open_image(path: Path) -> Image.Image:
    """Decode one image file: first frame, upright by its EXIF tag, sRGB by its ICC profile, transparency on white.

    Raises FrnError if the file is missing, not a regular file, too large, of an unknown format, or damaged.
    """
    return decode(read_file(path), path)


def read_file(path: Path) -> bytes:
    """Read the bytes of an image file, which may be in a zip, or of a box of one (`frn.images.boxes`), as a PNG.

    Pipes and devices, which may never end, are not read.

    Raises FrnError if the file is missing, not a regular file, empty, or larger than `MAX_PHOTO_BYTES`.
    """
    file, box = split_box(path)
    if box is not None:
        if split_box(file)[1] is not None:
            raise FrnError(f"{file.name[:80]}: has a box already. Give one box, in pixels of the whole photo.")
        encoded = io.BytesIO()
        part, _ = _decode(read_file(file), str(file), DecodeRequest(box=box))
        part.save(encoded, "PNG", compress_level=1)
        return encoded.getvalue()
    if not (data := read_whole(path, MAX_PHOTO_BYTES)):
        raise FrnError(f"{path}: is empty (0 bytes)")
    return data


def decode(data: bytes, where: Path) -> Image.Image:
    """Decode the bytes of an image file as `open_image` does; `where` is its name in messages.

    Raises FrnError if the image has more than `MAX_PIXELS`, is of an unknown format, or damaged.
    """
    return _decode(data, str(where), DecodeRequest())[0]


def decode_stored(data: bytes, where: str) -> Image.Image:
    """Decode an image as stored, not turned upright, as grey or RGB. Raises FrnError as `decode` does."""
    return _decode(data, where, DecodeRequest(stored=True))[0]


def decode_crop(data: bytes, where: Path, transform: EvaluationTransform) -> Pixels:
    """Decode and crop. Threads decode large images one at a time, and child processes at most four.

    The pixels equal those of `decode`, without a second full-size image. Raises FrnError as `decode` does.
    """
    return np.asarray(_decode(data, str(where), DecodeRequest(transform=transform))[0])


def decode_crops(data: bytes, where: Path, transforms: tuple[EvaluationTransform, EvaluationTransform]) -> list[Pixels]:
    """Decode once as `decode_crop` does, and crop in two ways."""
    first, second = transforms
    both = np.asarray(_decode(data, str(where), DecodeRequest(transform=first, also=second))[0])
    return [both[: first.size, : first.size], both[first.size :, : second.size]]


def decode_preview(data: bytes, where: Path, transform: EvaluationTransform) -> tuple[Pixels, tuple[int, int]]:
    """Decode as `decode_crop` does, for display: a JPEG only at the resolution of the crop, three times as fast.

    Returns the crop, and the (width, height) of the whole upright image. Raises FrnError as `decode` does.
    """
    # Factor by which a preview is decoded at higher resolution than the crop needs
    draft = 2 * (transform.resize or transform.size)
    image, size = _decode(data, str(where), DecodeRequest(transform=transform, draft=draft))
    return np.asarray(image), size


def decode_whole(data: bytes, where: Path, longest: int) -> tuple[Pixels, tuple[int, int]]:
    """Decode the whole image for display, with a longer side of at most `longest` pixels.

    Returns the pixels (h, w, 3), and the (width, height) of the file's upright image. Raises FrnError as `decode` does.
    """
    image, size = _decode(data, str(where), DecodeRequest(draft=longest, longest=longest))
    return np.asarray(image), size


def _decode(data: bytes, where: str, request: DecodeRequest) -> tuple[Image.Image, tuple[int, int]]:
    """Return the requested image, and the (width, height) of the whole upright image."""
    return decode_in_process(data, where, request, _LARGE) if is_quick(data) else _in_child(data, where, request)


def is_quick(data: bytes) -> bool:
    """Return whether the size of the file and its pixels limit the decoding work.

    They do not for compressed TIFF and BMP, whose decoders have their own loops, or for a JPEG with many scans over all
    of its pixels.
    """
    if len(data) > QUICK_BYTES:
        return False
    if data.startswith(JPEG):
        return data.count(JPEG_SCAN) <= 16  # maximum number of passes over all pixels of a JPEG; encoders use up to ten
    return data.startswith(QUICK) or data[:4] + data[8:12] == b"RIFFWEBP"


@functools.cache
def _workers() -> "queue.LifoQueue[SandboxedWorker]":
    """Return the idle children, which start at their first request."""
    workers: queue.LifoQueue[SandboxedWorker] = queue.LifoQueue()
    for _ in range(min(cores(), MAX_WORKERS)):
        workers.put(SandboxedWorker("frn.images.opening:answer", MEMORY))
    return workers


after_fork(_workers, lambda idle: idle.cache_clear())  # the children belong to the parent


def _in_child(data: bytes, where: str, request: DecodeRequest) -> tuple[Image.Image, tuple[int, int]]:
    """Decode in a child process within `SECONDS` and `MEMORY`; this process never decodes these bytes."""
    workers = _workers()
    child = workers.get()
    try:
        answer, blobs = child.ask({"where": where, "request": request}, [data], SECONDS)
    except WorkerKilledError as stopped:
        raise FrnError(f"{where}: cannot be decoded: the decoder {stopped}") from stopped
    finally:
        workers.put(child)
    for message in answer["told"]:
        say(message)
    image = Image.frombytes(answer["mode"], tuple(answer["size"]), blobs.pop())
    if blobs:
        image.info["icc_profile"] = blobs.pop()
    width, height = answer["whole"]
    return image, (width, height)


def answer(question: Message, blobs: list[bytes]) -> Reply:
    """Decode an image in the child process."""
    request = convert(question["request"], DecodeRequest)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        say.cache_clear()  # the parent filters repeated warnings
        image, full = decode_in_process(blobs.pop(), question["where"], request)
    warned = [str(warning.message) for warning in caught if issubclass(warning.category, ShallowDataWarning)]
    profile = image.info.get("icc_profile")
    sent = [profile] if isinstance(profile, bytes) else []
    return {"whole": full, "told": warned, "mode": image.mode, "size": image.size}, (*sent, image.tobytes())
