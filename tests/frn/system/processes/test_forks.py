"""A fork and its parent both use what was open before."""

import io
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from frn.features.extractor import Extractor
from frn.features.feature_cache import FeatureStore
from frn.features.onnx_runtime import ForeignModel, OwnModel
from frn.images import opening
from frn.images.opening import open_image
from frn.images.transforms import Pixels
from frn.models.zoo import shipped_extractors
from frn.system.processes.locks import Lock
from tests.forks import ended, fork

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
Reader = Callable[[], object]


@contextmanager
def zipped_photos(folder: Path) -> Iterator[Reader]:
    random = np.random.default_rng(0)
    with zipfile.ZipFile(folder / "photos.zip", "w") as archive:
        for number in range(40):
            file = io.BytesIO()
            Image.fromarray(random.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(file, "PNG")
            archive.writestr(f"{number}.png", file.getvalue())
    paths = [folder / "photos.zip" / f"{number}.png" for number in range(40)] * 5
    yield lambda: [open_image(path).tobytes() for path in paths]


@contextmanager
def busy_decoders(folder: Path) -> Iterator[Reader]:
    """Decode while all children of the parent are busy, which the fork must not wait for."""
    Image.new("RGB", (9, 9), "teal").save(folder / "x.tiff")
    open_image(folder / "x.tiff")
    workers, here = opening._workers(), os.getpid()
    busy = [workers.get() for _ in range(workers.qsize())]

    def read_in_turn() -> bytes:
        for worker in busy if os.getpid() == here else ():
            workers.put(worker)
        return open_image(folder / "x.tiff").tobytes()

    yield read_in_turn


@contextmanager
def session(folder: Path) -> Iterator[Reader]:
    extractor, pixels = opened(trusted=True)
    own = extractor.session
    assert isinstance(own, OwnModel)
    first, here = own._session, os.getpid()
    yield lambda: (extractor.feature_maps(pixels).tobytes(), (own._session is first) == (os.getpid() == here))


@contextmanager
def busy_sandbox(folder: Path) -> Iterator[Reader]:
    """Run a model while a thread of the parent holds the lock of its child, which the fork must not wait for."""
    extractor, pixels = opened(trusted=False)
    foreign = extractor.session
    assert isinstance(foreign, ForeignModel)
    held, here = foreign._child._lock, os.getpid()

    def run() -> bytes:
        if os.getpid() == here and held.locked():
            held.release()
        maps = extractor.feature_maps(pixels).tobytes()
        if os.getpid() == here:
            held.acquire()
        return maps

    yield run
    held.release()


def opened(*, trusted: bool) -> tuple[Extractor, Pixels]:
    extractor = Extractor.open(shipped_extractors()["conv4"], trusted=trusted, threads=2, device="cpu")
    side = extractor.transform.size
    return extractor, np.random.default_rng(0).integers(0, 256, (2, side, side, 3), dtype=np.uint8)


@contextmanager
def feature_store(folder: Path) -> Iterator[Reader]:
    store, maps = FeatureStore(folder / "features.sqlite"), np.ones((4, 8), dtype=np.float32)
    connection = store._database

    def write_and_read() -> object:
        store.put(f"by {os.getpid()}", {"x": maps})
        stored = store.get(f"by {os.getpid()}", "x", (4, 8))
        return stored and stored[0].tobytes(), (store._database is connection) == (os.getpid() == here)

    here = os.getpid()
    yield write_and_read
    assert store.get(f"by {here}", "x", (4, 8)) is not None
    store.close()


@contextmanager
def lock(folder: Path) -> Iterator[Reader]:
    held, here = Lock(folder / "lock"), os.getpid()
    assert held.acquire()

    def look() -> object:
        if os.getpid() != here:
            held.release()
        return (folder / "lock").exists(), held.is_held() == (os.getpid() == here), Lock(folder / "lock").acquire()

    yield look
    held.release()


KINDS = {
    "a zip of photos": zipped_photos,
    "decoders": busy_decoders,
    "a session": session,
    "a sandboxed session": busy_sandbox,
    "the feature store": feature_store,
    "a lock": lock,
}


@pytest.mark.parametrize("kind", KINDS)
def test_parent_and_forks_read_the_same_from_what_was_open(tmp_path: Path, kind: str) -> None:
    with KINDS[kind](tmp_path) as read:
        if kind != "decoders":
            before = read()

        def compare() -> None:
            assert kind == "decoders" or read() == before
            read()

        forks = [fork(compare) for _ in range(3)]
        compare()
        assert [ended(process) for process in forks] == [0, 0, 0]
        assert read()
