"""An extractor to run: one of ours in this process, an untrusted one in a child with limits on its time and memory.

The operators of a graph are checked first (`runtime`). What is allowed can still be far too much of it, and a
runtime computes constants before any limit of its own counts: so parsing, checking and running an untrusted file is
done in a child, and one image is tried before the file counts as opened.
"""

import ctypes
import os
import time
import weakref
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.inference.onnx_runtime import FEATURES_FORMAT, Device, check_model, open_session, run_session
from frn.system.processes.messages import Message
from frn.system.processes.sandbox import Answer, SandboxedWorker, WorkerKilledError

SECONDS = 8.0
"""That opening an untrusted file may take, one image included; as many again for each `PER_BYTES` that it has."""
PER_BYTES = 64 << 20
TIMEOUT_FACTOR = 5.0
"""A run may take so many times what the one image of the opening leads to expect."""
MEMORY = 1280 << 20
"""Bytes that a child may take, and `PER_FILE` times the file's, and a stack for each thread."""
PER_FILE, PER_THREAD = 4, 16 << 20
CUDA_MEMORY = 8 << 30
"""Instead, where CUDA maps its own."""

Maps = NDArray[np.float32]
Value: TypeAlias = tuple[str, str, list[Any]]
"""Name, type and shape of an input or output; a dimension that is not fixed is not a number."""


class Session(Protocol):
    """A model that is open."""

    metadata: dict[str, str]
    inputs: list[Value]
    outputs: list[Value]

    def run(self, images: Maps) -> Maps:
        """Feature maps (n, r, d) of images (n, 3, S, S). FrnError if that fails, or takes too long."""


class OwnModel:
    """A file that we made: it is not checked."""

    def __init__(self, data: bytes, where: str, device: Device, threads: int) -> None:
        self._open = partial(open_session, data, where, device=device, threads=threads)
        self._session: Any = self._open()
        self.metadata, self.inputs, self.outputs = _describe(self._session)
        _OWN.add(self)

    def run(self, images: Maps) -> Maps:
        """As `Session`."""
        if self._session is None:
            self._session = self._open()
        (maps,) = run_session(self._session, ["feature_map"], {"images": images})
        return maps

    def forget(self) -> None:
        """In a fork: a session without its threads can neither run nor be deleted, so it stays, and another is made."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._session))
        self._session = None


_OWN: "weakref.WeakSet[OwnModel]" = weakref.WeakSet()


def _forget_all() -> None:
    for model in list(_OWN):
        model.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


class ForeignModel:
    """A file that may come from anywhere."""

    def __init__(self, data: bytes, where: str, device: Device, threads: int) -> None:
        self._data, self._where = data, where
        self._how: Message = {"do": "open", "where": where, "device": device, "threads": threads}
        memory = MEMORY + PER_FILE * len(data) + PER_THREAD * threads
        self._child = SandboxedWorker("frn.inference.onnx_sandbox:answer", memory if device == "cpu" else CUDA_MEMORY)
        self._open()

    def _open(self) -> None:
        answer, _ = self._ask(self._how, [self._data], SECONDS * (1 + len(self._data) / PER_BYTES))
        self.metadata: dict[str, str] = answer["metadata"]
        self.inputs: list[Value] = [tuple(value) for value in answer["inputs"]]
        self.outputs: list[Value] = [tuple(value) for value in answer["outputs"]]
        self._seconds = float(answer["seconds"])
        """That one image took."""

    def run(self, images: Maps) -> Maps:
        """As `Session`. A child that had to be ended, or is another process's, is replaced."""
        if not self._child.lives:
            self._open()
        expected = max(SECONDS, TIMEOUT_FACTOR * self._seconds * len(images))
        answer, (found,) = self._ask({"do": "run", "shape": images.shape}, [images.tobytes()], expected)
        return np.frombuffer(found, dtype=np.float32).reshape(answer["shape"])

    def _ask(self, question: Message, blobs: list[bytes], seconds: float) -> tuple[Message, list[bytes]]:
        try:
            return self._child.ask(question, blobs, seconds)
        except WorkerKilledError as stopped:
            raise FrnError(f"{self._where}: the model was stopped: it {stopped}") from stopped


def _describe(session: Any) -> tuple[dict[str, str], list[Value], list[Value]]:
    def values(found: Any) -> list[Value]:
        return [(value.name, value.type, list(value.shape)) for value in found]

    metadata = dict(session.get_modelmeta().custom_metadata_map)
    return metadata, values(session.get_inputs()), values(session.get_outputs())


_open: dict[str, Any] = {}
"""The session of this process, if it is a child."""


def answer(question: Message, blobs: list[bytes]) -> Answer:
    """Run in the child process."""
    if question["do"] == "run":
        images = np.frombuffer(blobs[0], dtype=np.float32).reshape(question["shape"])
        (maps,) = run_session(_open["session"], ["feature_map"], {"images": images})
        maps = np.ascontiguousarray(maps, dtype=np.float32)
        return {"shape": maps.shape}, (maps.tobytes(),)
    where, data = question["where"], blobs.pop()
    check_model(data, where, [FEATURES_FORMAT])
    _open["session"] = session = open_session(
        data, where, device=question["device"], threads=question["threads"], fold=False
    )
    metadata, inputs, outputs = _describe(session)
    began = time.monotonic()
    if [(name, kind) for name, kind, _ in inputs] == [("images", "tensor(float)")] and len(inputs[0][2]) == 4:
        shape = [side if isinstance(side, int) else 1 for side in inputs[0][2]]
        run_session(session, [outputs[0][0]], {"images": np.zeros(shape, dtype=np.float32)})
    seconds = time.monotonic() - began
    return {"metadata": metadata, "inputs": inputs, "outputs": outputs, "seconds": seconds}, ()
