"""Reader of data sets released as Python pickles, which builds only lists, dictionaries, bytes and arrays.

Arrays are built from their bytes here: numpy's own unpickling trusts the file, and a damaged dtype state crashes the
process.
"""

import operator
import pickle
import re
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError, shorten

PLAIN = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|[SU]\d{1,6})")
"""Types of numbers and text that images and labels consist of."""


def load_arrays(file: IO[bytes], where: str) -> Any:
    """Load a pickle; Python 2 strings become bytes, and arrays are read-only.

    Raises FrnError if the pickle is damaged or refers to anything that arrays do not need.
    """
    try:
        return _with_arrays(_ArraysOnly(file, encoding="bytes").load(), set())
    except Exception as error:  # unpickling damaged data may raise anything
        raise FrnError(f"{where}: is not the released file, or is damaged ({shorten(error)})") from error


class _DType:
    """Placeholder for a dtype."""

    def __init__(self, kind: str | bytes, align: object = False, copy: object = True) -> None:
        if not PLAIN.fullmatch(name := _text(kind)):
            raise pickle.UnpicklingError(f"it has an array of {name!r}, which an image archive does not need")
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = self.dtype.newbyteorder(_text(state[1]))  # type: ignore[arg-type]


class _Array:
    """Placeholder for an array until the whole pickle is read."""

    value: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        shape, dtype, is_fortran, data = state[-4:]  # a version may precede them
        self.value = _array(data, dtype, shape, "F" if is_fortran else "C")


def _array(data: bytes, dtype: _DType, shape: tuple[int, ...], order: Any = "C") -> NDArray[Any]:
    if not isinstance(data, bytes | bytearray):
        raise pickle.UnpicklingError("it has an array of objects, which an image archive does not need")
    flat = np.frombuffer(data, dtype.dtype) if data else np.empty(0, dtype.dtype)
    return flat.reshape([operator.index(size) for size in shape], order=order)


def _text(value: str | bytes) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else value


KNOWN: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): None,  # referenced by pickled arrays, but never called
    ("numpy", "dtype"): _DType,
    ("numpy._core.multiarray", "_reconstruct"): lambda *_: _Array(),
    ("numpy._core.multiarray", "scalar"): lambda dtype, data: _array(data, dtype, (1,))[0],
    ("numpy._core.numeric", "_frombuffer"): lambda data, dtype, shape, order: _array(data, dtype, shape, _text(order)),
    ("_codecs", "encode"): lambda text, encoding="latin1": text.encode("latin1"),  # bytes, as Python 3 writes them
}


_Unpickler: Any = pickle._Unpickler


class _ArraysOnly(_Unpickler):  # type: ignore[misc]
    """Unpickler for arrays only, in Python: the C version allocates as many memo slots as a file claims."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return KNOWN[module.replace("numpy.core", "numpy._core"), name]
        except KeyError:
            asked = f"it refers to {module}.{name}, which an image archive does not need"
            raise pickle.UnpicklingError(asked) from None

    def load_build(self) -> None:
        """Set the state of a placeholder; otherwise a pickle could modify any object that it refers to."""
        if type(self.stack[-2]) not in (_DType, _Array):
            raise pickle.UnpicklingError("it changes an object that is not an array")
        super().load_build()

    dispatch: ClassVar = {**_Unpickler.dispatch, pickle.BUILD[0]: load_build}


def _with_arrays(value: Any, seen: set[int]) -> Any:
    """Return the value with arrays in place of their placeholders."""
    if type(value) is _Array:
        if value.value is None:
            raise pickle.UnpicklingError("it has an array that is not numeric")
        return value.value
    if type(value) is tuple:
        return tuple(_with_arrays(each, seen) for each in value)
    if type(value) in (list, dict) and id(value) not in seen:
        seen.add(id(value))
        for key, each in enumerate(value) if type(value) is list else [*value.items()]:
            value[key] = _with_arrays(each, seen)
    return value
