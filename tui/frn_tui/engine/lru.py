"""Arrays in memory, up to some bytes."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np

Array = TypeVar("Array", bound=np.ndarray)


class ByteLimitedLRU(Generic[Array]):
    """Drops the arrays that were used longest ago once they take more than `limit` bytes; one always stays."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._arrays: OrderedDict[Hashable, Array] = OrderedDict()

    def get(self, key: Hashable) -> Array | None:
        if key in self._arrays:
            self._arrays.move_to_end(key)
        return self._arrays.get(key)

    def put(self, key: Hashable, array: Array) -> None:
        self._bytes += array.nbytes - (self._arrays.pop(key).nbytes if key in self._arrays else 0)
        self._arrays[key] = array
        while self._bytes > self._limit and len(self._arrays) > 1:
            self._bytes -= self._arrays.popitem(last=False)[1].nbytes
