"""Check in a child process that a torch checkpoint can be unpickled safely, with a dummy for every tensor.

Torch reads a checkpoint as weights only, so the file runs no code. But a few hundred bytes of nested tuples can take
forever to hash, and an archive can unpack to more than fits in memory. Unpickling without the tensors takes the same
steps and does not need torch, so the child starts quickly.
"""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

from frn.errors import FrnError, shorten
from frn.system.files import require_regular
from frn.system.processes.messages import Message
from frn.system.processes.sandbox import Reply, SandboxedWorker, WorkerKilledError

SECONDS = 8.0
MEMORY = 1 << 30

_LEGACY_PARTS = 5  # pickles that older versions of torch write before the tensors; the fourth is the saved object


def check_checkpoint(path: Path) -> None:
    """Raise FrnError if a checkpoint is not a regular file, or unpickling it takes too long or too much memory."""
    require_regular(path, 8 << 30)  # size limit of a checkpoint
    child = SandboxedWorker("frn.models.checkpoint_check:answer", MEMORY)
    try:
        child.ask({"path": str(path.absolute()), "where": str(path)}, (), SECONDS)
    except WorkerKilledError as stopped:
        raise FrnError(f"{path}: is not a readable torch checkpoint: reading it {stopped}") from stopped
    finally:
        child.close()


def answer(question: Message, _: list[bytes]) -> Reply:
    """Answer a request in the child process."""
    path, where = Path(question["path"]), question["where"]
    try:
        if zipfile.is_zipfile(path):
            _WithoutTensors(io.BytesIO(_pickle_in(path, where)), encoding="latin1").load()
        else:
            with path.open("rb") as file:
                for _part in range(_LEGACY_PARTS):
                    _WithoutTensors(file, encoding="latin1").load()
    except (FrnError, MemoryError):
        raise
    except Exception as error:  # unpickling damaged data may raise anything
        raise FrnError(f"{where}: is not a readable torch checkpoint ({shorten(error)})") from error
    return {}, ()


def _pickle_in(path: Path, where: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        total = sum(entry.file_size for entry in entries)
        if total > path.stat().st_size:  # torch stores entries uncompressed
            raise FrnError(
                f"{where}: unpacks to {total:,} bytes, more than the file's size. torch never writes such a file."
            )
        for entry in entries:
            if entry.filename.endswith("data.pkl"):
                if entry.file_size > (64 << 20):  # size limit for everything in a checkpoint except the tensors
                    raise FrnError(f"{where}: has {entry.file_size >> 20} MiB of data besides its tensors")
                return archive.read(entry)
    raise FrnError(f"{where}: is not a readable torch checkpoint (it has no data.pkl)")


class _WithoutTensors(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _Nothing

    def persistent_load(self, pid: object) -> Any:
        return _Nothing()


class _Nothing(dict[object, object]):
    """Dummy for any saved object; accepts every argument, state and item."""

    def __init__(self, *_: object) -> None:
        super().__init__()

    def __setstate__(self, state: object) -> None:
        pass

    def __call__(self, *_: object) -> "_Nothing":
        return self

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def append(self, _: object) -> None:
        """Ignore the item; the list stays empty."""

    extend = append
