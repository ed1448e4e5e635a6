"""Shared fixtures: recorded arrays, a private cache, a small rendered data set, reproducible threads, a time limit."""

import faulthandler
import gc
import importlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from frn.system.hardware import cores

gc.disable()  # until all modules are imported
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
# Keep the workers' threads from waiting for each other, which halves the time: numpy and torch read this on import, and
# sessions have as many threads as one of several processes that torchrun starts.
if WORKERS > 1:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, str(max(1, cores() // WORKERS)))
    os.environ["LOCAL_WORLD_SIZE"] = str(WORKERS)

import numpy as np  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402

from frn.data.synthetic import draw_moth, species  # noqa: E402
from frn.features.onnx_runtime import OwnModel  # noqa: E402
from frn.models.zoo import DEFAULT_MODEL  # noqa: E402
from tests import nursery  # noqa: E402
from tests.commands import frn  # noqa: E402
from tests.drawings import MOTHS, QUERIES  # noqa: E402

SHARED = Path(os.environ.get("FRN_SHARED", "../shared"))
TIMEOUT = 300
"""Seconds after which a test counts as hung: its process prints all stacks and ends; with `-n`, a new one continues."""
TESTS = Path(__file__).parent
EXPERIMENTS = ("benchmarks", "decoder", "teaching")
SHOWN = pytest.StashKey[int]()  # destination of standard error between tests


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SHOWN] = os.dup(2)
    if sys.platform == "linux":
        nursery.use()
    # background jobs of a shell ignore it, and child processes inherit this
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests of experiments, which `.ci/nightly` runs if the experiments change."""
    for item in items:
        if item.path.relative_to(TESTS).parts[0] in EXPERIMENTS:
            item.add_marker(pytest.mark.nightly)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the import of experiments' tests unless their marker is chosen."""
    is_experiment = collection_path.parent == TESTS and collection_path.name in EXPERIMENTS
    return True if is_experiment and "not nightly" in config.option.markexpr else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker adjacent folders, whose fixtures it then builds alone; an idle one takes half of the rest."""
    return importlib.import_module("xdist.scheduler").WorkStealingScheduling(config, log)


def pytest_collection_finish() -> None:
    """Collect garbage rarely, and never from imported modules (torch, the tests): it took a fifth of the time."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(5_000, 10, 10)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if "FRN_FUZZ" in os.environ or any(item.get_closest_marker(name) for name in ("slow", "campaign", "runtimes")):
        return (yield)
    faulthandler.dump_traceback_later(TIMEOUT, exit=True, file=item.config.stash[SHOWN])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def golden() -> Path:
    """Arrays recorded from the authors' code."""
    folder = SHARED / "golden"
    if not folder.is_dir():
        pytest.skip(f"no recorded arrays at {folder} (set FRN_SHARED)")
    return folder


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide the user's cache and added models from all tests."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("FRN_CACHE", str(cache))
    monkeypatch.setenv("FRN_MODELS", str(tmp_path / "added-models"))
    return cache


@pytest.fixture(scope="session", autouse=True)
def opened_once() -> Iterator[None]:
    """Open each shipped network once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("frn.features.extractor.OwnModel", lru_cache(16)(OwnModel))
        yield


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the feature maps of the drawings by the default model and by the smallest one."""
    cache = tmp_path_factory.mktemp("embedded") / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRN_CACHE", str(cache))
        for model in (DEFAULT_MODEL, "conv4"):
            assert not frn("classify", MOTHS, QUERIES, "--model", model).exit_code
    return cache


@pytest.fixture
def warm_cache(embedded: Path, private_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a test with the maps of `embedded`, a second less for a command; the cache is beside the test's folder."""
    cache = private_cache.parent.with_name(f"{private_cache.parent.name} cache")
    monkeypatch.setenv("FRN_CACHE", str(shutil.copytree(embedded, cache)))


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Use the same random numbers in every test, and restore the thread count."""
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def write_moths(folder: Path, classes: int, images: int, *, size: int = 32, first: int = 0) -> None:
    """Write class folders of rendered moths."""
    for label in range(classes):
        home = folder / f"moth {first + label:02d}"
        home.mkdir(parents=True)
        for number in range(images):
            generator = np.random.default_rng([first + label, number])
            draw_moth(species(first + label), generator, size).save(home / f"{number:02d}.png")


@pytest.fixture(scope="session")
def moths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set in the usual layout: 8, 5 and 5 classes of 12 moths. Tests must not change it."""
    folder = tmp_path_factory.mktemp("moths")
    write_moths(folder / "train", 8, 12)
    write_moths(folder / "val", 5, 12, first=20)
    write_moths(folder / "test", 5, 12, first=40)
    return folder


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB; needs administrator rights."""
    (folder := tmp_path / "disk").mkdir()
    if sys.platform != "linux" or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture
def truncated_jpeg(tmp_path: Path) -> Path:
    """A truncated JPEG."""
    path = tmp_path / "truncated.jpg"
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:900])
    return path
