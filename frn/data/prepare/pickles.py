"""Data sets that were released as Python pickles: nothing but lists, dictionaries, bytes and arrays are built.

Arrays are made of their bytes here: numpy's own way back from a pickle believes what it is told, and a damaged state of
a dtype ends the process.
"""

import operator
import pickle
import re
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError, shorten

PLAIN = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|[SU]\d{1,6})")
"""Kinds of numbers and texts that images and labels are made of."""


def load_arrays(file: IO[bytes], where: str) -> Any:
    """Read a pickle; text of Python 2 comes as bytes, and arrays are read-only.

    FrnError if it asks for anything that arrays have no use for, or is damaged.
    """
    try:
        return _with_arrays(_ArraysOnly(file, encoding="bytes").load(), set())
    except Exception as error:  # unpickling raises whatever it stumbles over
        raise FrnError(f"{where}: is not the released file, or is damaged ({shorten(error)})") from error


class _DType:
    """Stands in for a dtype."""

    def __init__(self, kind: str | bytes, align: object = False, copy: object = True) -> None:
        if not PLAIN.fullmatch(name := _text(kind)):
            raise pickle.UnpicklingError(f"it has an array of {name!r}, which an image archive has no use for")
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = self.dtype.newbyteorder(_text(state[1]))  # type: ignore[arg-type]


class _Array:
    """Stands in for an array until the whole pickle is read."""

    value: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        shape, dtype, is_fortran, data = state[-4:]  # a version may come first
        self.value = _array(data, dtype, shape, "F" if is_fortran else "C")


def _array(data: bytes, dtype: _DType, shape: tuple[int, ...], order: Any = "C") -> NDArray[Any]:
    if not isinstance(data, bytes | bytearray):
        raise pickle.UnpicklingError("it has an array of objects, which an image archive has no use for")
    flat = np.frombuffer(data, dtype.dtype) if data else np.empty(0, dtype.dtype)
    return flat.reshape([operator.index(size) for size in shape], order=order)


def _text(value: str | bytes) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else value


KNOWN: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): None,  # named where arrays are, and never called
    ("numpy", "dtype"): _DType,
    ("numpy._core.multiarray", "_reconstruct"): lambda *_: _Array(),
    ("numpy._core.multiarray", "scalar"): lambda dtype, data: _array(data, dtype, (1,))[0],
    ("numpy._core.numeric", "_frombuffer"): lambda data, dtype, shape, order: _array(data, dtype, shape, _text(order)),
    ("_codecs", "encode"): lambda text, encoding="latin1": text.encode("latin1"),  # bytes, as Python 3 writes them
}


_Unpickler: Any = pickle._Unpickler


class _ArraysOnly(_Unpickler):  # type: ignore[misc]
    """In Python: the one in C makes room for as many objects as a file says it will remember."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return KNOWN[module.replace("numpy.core", "numpy._core"), name]
        except KeyError:
            asked = f"it asks for {module}.{name}, which an image archive has no use for"
            raise pickle.UnpicklingError(asked) from None

    def load_build(self) -> None:
        """Give an object its state: of ours only, or a pickle could change what it names."""
        if type(self.stack[-2]) not in (_DType, _Array):
            raise pickle.UnpicklingError("it changes something that is no array")
        super().load_build()

    dispatch: ClassVar = {**_Unpickler.dispatch, pickle.BUILD[0]: load_build}


def _with_arrays(value: Any, seen: set[int]) -> Any:
    """The same with arrays in the place of what stood for them."""
    if type(value) is _Array:
        if value.value is None:
            raise pickle.UnpicklingError("it has an array without numbers")
        return value.value
    if type(value) is tuple:
        return tuple(_with_arrays(each, seen) for each in value)
    if type(value) in (list, dict) and id(value) not in seen:
        seen.add(id(value))
        for key, each in enumerate(value) if type(value) is list else [*value.items()]:
            value[key] = _with_arrays(each, seen)
    return value
