"""Decoding in a child process with a time limit, for images whose decoding work is not bounded."""

import functools
import os
import queue
import warnings

from PIL import Image

from frn.errors import FrnError
from frn.images.decoding import DecodeRequest, decode_in_process
from frn.images.depth import ShallowDataWarning, say
from frn.system.hardware import cores
from frn.system.processes.messages import Message, convert
from frn.system.processes.sandbox import Answer, SandboxedWorker, WorkerKilledError

SECONDS = 8.0
"""Time limit for one image in seconds; 120 megapixels of compressed TIFF take one or two."""
MEMORY = 1536 << 20
"""Memory limit for a child: the bytes that `frn.images` allows a file, plus the converted image."""
MAX_WORKERS = 4


@functools.cache
def _workers() -> "queue.LifoQueue[SandboxedWorker]":
    """Return the idle children, which start at their first request."""
    workers: queue.LifoQueue[SandboxedWorker] = queue.LifoQueue()
    for _ in range(min(cores(), MAX_WORKERS)):
        workers.put(SandboxedWorker("frn.images.worker:answer", MEMORY))
    return workers


if hasattr(os, "register_at_fork"):  # after a fork, the children belong to the parent
    os.register_at_fork(after_in_child=_workers.cache_clear)


def decode_in_worker(data: bytes, where: str, request: DecodeRequest) -> tuple[Image.Image, tuple[int, int]]:
    """Decode in a child as `decode_in_process` does; this process never decodes these bytes.

    Raises FrnError as `decode_in_process` does, or if decoding exceeds `SECONDS` or `MEMORY`.
    """
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


def answer(question: Message, blobs: list[bytes]) -> Answer:
    """Answer a request in the child process."""
    request = convert(question["request"], DecodeRequest)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        say.cache_clear()  # the parent filters repeated warnings
        image, whole = decode_in_process(blobs.pop(), question["where"], request)
    told = [str(warning.message) for warning in caught if issubclass(warning.category, ShallowDataWarning)]
    profile = image.info.get("icc_profile")
    sent = [profile] if isinstance(profile, bytes) else []
    return {"whole": whole, "told": told, "mode": image.mode, "size": image.size}, (*sent, image.tobytes())
