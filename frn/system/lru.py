"""An in-memory cache limited by bytes, not by number of entries."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

Kept = TypeVar("Kept", bound=NDArray[Any])


class ByteLimitedCache(Generic[Kept]):
    """Drops the least recently used entries if the total exceeds `limit` bytes; the last entry always stays."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._entries: OrderedDict[Hashable, Kept] = OrderedDict()

    def get(self, key: Hashable) -> Kept | None:
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: Hashable, entry: Kept) -> None:
        self._bytes += entry.nbytes - (self._entries.pop(key).nbytes if key in self._entries else 0)
        self._entries[key] = entry
        while self._bytes > self._limit and len(self._entries) > 1:
            self._bytes -= self._entries.popitem(last=False)[1].nbytes
