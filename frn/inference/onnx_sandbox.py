"""Sessions of extractors: trusted ones in this process, untrusted ones in a child with limited time and memory.

The operators of a graph are checked first (`onnx_runtime`), but allowed operators can still request far too much memory
or time, and a runtime computes constants before any limit of its own applies. So an untrusted file is parsed, checked
and run in a child process, and one image is tried before the file counts as opened.
"""

import ctypes
import os
import time
import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.inference.onnx_runtime import (
    FEATURES_FORMAT,
    TIME_LIMIT,
    TRACED_HEAD,
    Device,
    check_model,
    open_session,
    run_session,
)
from frn.system.processes.messages import Message
from frn.system.processes.sandbox import Answer, SandboxedWorker, WorkerKilledError

SECONDS = 8.0
"""Seconds to open an untrusted file and embed one image; as many again for each `PER_BYTES` of its size."""
PER_BYTES = 64 << 20
TIMEOUT_FACTOR = 5.0
"""Time limit of a run, relative to the time expected from the one image embedded on opening."""
MEMORY = 1280 << 20
"""Bytes that a child may use, in addition to `PER_FILE` times the file's size and a stack for each thread."""
PER_FILE, PER_THREAD = 4, 16 << 20
FREE = 2
"""Size of a free dimension (images, classes, shots) in the first run."""
CUDA_MEMORY = 8 << 30
"""The same with CUDA, which maps its own memory."""

Maps = NDArray[np.float32]
Value: TypeAlias = tuple[str, str, list[Any]]
"""Name, type and shape of an input or output; a dimension that is not fixed is not a number."""


class OwnModel:
    """A model file made by `frn`; it is not checked."""

    def __init__(self, data: bytes, where: str, device: Device, threads: int) -> None:
        self._open = partial(open_session, data, where, device=device, threads=threads)
        self._session: Any = self._open()
        self.metadata, self.inputs, self.outputs = _describe(self._session)
        _OWN.add(self)

    def run(self, inputs: Mapping[str, Maps]) -> Maps:
        """Return the first output for inputs by name. Raises FrnError if the run fails or takes too long."""
        if self._session is None:
            self._session = self._open()
        (found,) = run_session(self._session, [self.outputs[0][0]], inputs)
        return found

    def forget(self) -> None:
        """Replace the session after a fork.

        A session without its threads can neither run nor be deleted, so it is kept and another is created.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._session))
        self._session = None


_OWN: "weakref.WeakSet[OwnModel]" = weakref.WeakSet()


def _forget_all() -> None:
    for model in list(_OWN):
        model.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


class ForeignModel:
    """A model file from an unknown source."""

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
        """Seconds that one image took."""

    def run(self, inputs: Mapping[str, Maps]) -> Maps:
        """Run as `OwnModel.run` does; a child that was stopped or belongs to another process is replaced."""
        if not self._child.lives:
            self._open()
        images = inputs.get("images")
        expected = TIME_LIMIT if images is None else max(SECONDS, TIMEOUT_FACTOR * self._seconds * len(images))
        shapes = {name: array.shape for name, array in inputs.items()}
        blobs = [np.ascontiguousarray(array).tobytes() for array in inputs.values()]
        answer, (found,) = self._ask({"do": "run", "shapes": shapes}, blobs, expected)
        return np.frombuffer(found, dtype=np.float32).reshape(answer["shape"])

    def _ask(self, question: Message, blobs: list[bytes], seconds: float) -> tuple[Message, list[bytes]]:
        try:
            return self._child.ask(question, blobs, seconds)
        except WorkerKilledError as stopped:
            raise FrnError(f"{self._where}: the model was stopped: it {stopped}") from stopped


Session = OwnModel | ForeignModel


def _describe(session: Any) -> tuple[dict[str, str], list[Value], list[Value]]:
    def values(found: Any) -> list[Value]:
        return [(value.name, value.type, list(value.shape)) for value in found]

    metadata = dict(session.get_modelmeta().custom_metadata_map)
    return metadata, values(session.get_inputs()), values(session.get_outputs())


_open: dict[str, Any] = {}
"""The session of this process, if the process is a child."""


def answer(question: Message, blobs: list[bytes]) -> Answer:
    """Answer a request in the child process."""
    if question["do"] == "run":
        named = zip(question["shapes"].items(), blobs, strict=True)
        given = {name: np.frombuffer(blob, dtype=np.float32).reshape(shape) for (name, shape), blob in named}
        session = _open["session"]
        (found,) = run_session(session, [session.get_outputs()[0].name], given)
        found = np.ascontiguousarray(found, dtype=np.float32)
        return {"shape": found.shape}, (found.tobytes(),)
    where, data = question["where"], blobs.pop()
    check_model(data, where, [FEATURES_FORMAT, TRACED_HEAD])
    _open["session"] = session = open_session(
        data, where, device=question["device"], threads=question["threads"], fold=False
    )
    metadata, inputs, outputs = _describe(session)
    began = time.monotonic()
    if all(kind == "tensor(float)" for _, kind, _ in inputs):
        sizes = {name: [side if isinstance(side, int) else FREE for side in shape] for name, _, shape in inputs}
        run_session(
            session, [outputs[0][0]], {name: np.zeros(shape, dtype=np.float32) for name, shape in sizes.items()}
        )
    seconds = time.monotonic() - began
    return {"metadata": metadata, "inputs": inputs, "outputs": outputs, "seconds": seconds}, ()
