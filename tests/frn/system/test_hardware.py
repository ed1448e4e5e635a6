"""The number of threads follows the processors that a process may use."""

import os
import sys

import pytest

from frn.errors import FrnError
from frn.system.hardware import own_rank, world
from tests import processes

ONE_PROCESSOR = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from frn import FewShotClassifier
from tests.drawings import DRAWINGS
moths = DRAWINGS / "moths"
FewShotClassifier().fit({home.name: sorted(home.iterdir()) for home in moths.iterdir() if home.is_dir()})
print(len(os.listdir("/proc/self/task")))
import torch
from frn.system.precision import set_threads
set_threads(None)
print(torch.get_num_threads())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux can say which processors may be used")
def test_a_process_on_one_processor_classifies_and_trains_in_one_thread() -> None:
    chosen = ("_NUM_THREADS", "LOCAL_WORLD_SIZE")
    environment = {name: value for name, value in os.environ.items() if not name.endswith(chosen)}
    result = processes.run([sys.executable, "-c", ONE_PROCESSOR], env=environment)
    assert result.stdout.split() == ["1", "1"], result.stderr


def test_only_torchrun_starts_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some schedulers set these variables as well."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert (world(), own_rank()) == (1, 0)
    for name, value in {"RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)
    assert (world(), own_rank()) == (2, 1)
    monkeypatch.setenv("WORLD_SIZE", "abc")
    with pytest.raises(FrnError, match="WORLD_SIZE is 'abc', but must be a number, as torchrun sets it"):
        world()
