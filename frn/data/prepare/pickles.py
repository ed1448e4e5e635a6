"""Data sets that were released as Python pickles: nothing but lists, dictionaries, bytes and arrays is rebuilt."""

import pickle
from typing import IO, Any

from frn.errors import FrnError, one_line

ALLOWED = frozenset(
    {("numpy", "ndarray"), ("numpy", "dtype")}
    | {
        (f"numpy.{core}.{module}", name)
        for core in ("core", "_core")
        for module, name in (("multiarray", "_reconstruct"), ("multiarray", "scalar"), ("numeric", "_frombuffer"))
    }
)


def load_arrays(file: IO[bytes], where: str) -> Any:
    """Read a pickle; text of Python 2 comes as bytes.

    FrnError if it asks for anything that arrays have no use for, or is damaged.
    """
    try:
        return _ArraysOnly(file, encoding="bytes").load()
    except Exception as error:  # unpickling raises whatever it stumbles over
        raise FrnError(f"{where}: is not the released file, or is damaged ({one_line(error)})") from error


def _latin1(text: str, encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes into an old pickle."""
    return text.encode("latin1")


class _ArraysOnly(pickle._Unpickler):
    """In Python: the one in C makes room for as many objects as a file says it will remember."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return _latin1
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which an image archive has no use for")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)
