"""Processes started by `torchrun` that train or evaluate one model together, using torch.distributed.

In training each rank takes different episodes of the same seeded epoch, gradients are averaged, and rank 0 writes.
BatchNorm sees the images of its own rank, as with one process; all ranks use the running statistics of rank 0.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from frn.errors import FrnError, shorten
from frn.system.hardware import own_rank, world

RENDEZVOUS_TIMEOUT = timedelta(hours=1)  # timeout for the other ranks: rank 0 may be decoding a data set

MEETING, BEGAN = "frn/meeting", "frn/began"
ANSWER = timedelta(seconds=5)  # timeout for a connection to the rendezvous store


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """This process among all ranks; a single process by default."""

    rank: int = 0
    world: int = 1

    @property
    def is_main(self) -> bool:
        """Return whether this process writes files and shows progress."""
        return self.rank == 0

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Let rank 0 first do work that the others then need not repeat, such as decoding into the cache."""
        if not self.is_main:
            dist.barrier()
        yield
        if self.is_main and self.world > 1:
            dist.barrier()

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set on any rank."""
        if self.world == 1:
            return flag
        said = torch.tensor(int(flag))
        dist.all_reduce(said, dist.ReduceOp.MAX)
        return bool(said)

    def mean(self, figures: Tensor) -> Tensor:
        """Return figures averaged over all ranks."""
        if self.world == 1:
            return figures
        total = figures.clone()
        dist.all_reduce(total)
        return total / self.world

    def assert_same(self, what: object) -> None:
        """Raise an `FrnError` on every rank if ranks see different values."""
        said = [what] * self.world
        if self.world > 1:
            dist.all_gather_object(said, what)
        if other := next((rank for rank, value in enumerate(said) if value != said[0]), 0):
            raise FrnError(
                f"rank {other} has different data, settings or frn version from rank 0 ({shorten(said[other], 200)}; "
                f"{shorten(said[0], 200)}). Start all ranks with the same ones."
            )

    def together(self, module: nn.Module, *, uses_all: bool) -> nn.Module:
        """Wrap a module to average gradients over all ranks; `uses_all`: each step uses every parameter."""
        if self.world == 1:
            return module
        return nn.parallel.DistributedDataParallel(module, find_unused_parameters=not uses_all)

    def sync_buffers(self, module: nn.Module) -> None:
        """Copy the running statistics of rank 0 to all ranks."""
        if self.world > 1:
            for buffer in module.buffers():
                dist.broadcast(buffer, 0)

    def share(self, total: int) -> range:
        """Return this rank's share of `total` items."""
        return range(total * self.rank // self.world, total * (self.rank + 1) // self.world)

    def gather(self, part: Tensor, total: int) -> Tensor:
        """Return the values of all `total` items from each rank's share: (m, ...) to (n, ...)."""
        if self.world == 1:
            return part
        ends = [total * rank // self.world for rank in range(self.world + 1)]
        gathered = part.new_empty(total, *part.shape[1:])
        gathered[ends[self.rank] : ends[self.rank + 1]] = part
        for rank, (start, end) in enumerate(pairwise(ends)):  # five times faster than gloo's all_gather
            if end > start:
                dist.broadcast(gathered[start:end], rank)
        return gathered


ALONE = ProcessGroup()


def restarted() -> bool:
    """Return whether torchrun has started this process again after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def note_beginning() -> None:
    """Record in torchrun's store that the run has begun; without torchrun, do nothing."""
    if (store := _torchrun_store()) is not None:
        store.set(BEGAN, "")


def began_before_restart() -> bool:
    """Return whether torchrun has restarted this process after the run had begun; a refused run has not."""
    return restarted() and ((store := _torchrun_store()) is None or store.check([BEGAN]))


@contextmanager
def joined(device: str) -> Iterator[ProcessGroup]:
    """Join the other ranks, if torchrun started any, until the work is done.

    Raises FrnError if another rank is lost.
    """
    if (ranks := world()) == 1:
        yield ALONE
        return
    rank, cuda = own_rank(), device != "cpu" and torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    try:
        store = _meeting_place(rank)
        backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"  # an exported model's maps are in CPU memory
        dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=RENDEZVOUS_TIMEOUT)
        yield ProcessGroup(rank, ranks)
    except (dist.DistError, RuntimeError) as error:
        if isinstance(error, dist.DistError) or "Connection" in str(error) or "peer" in str(error):
            raise FrnError(
                f"rank {rank} of {ranks} lost another rank ({shorten(error, 120)}). Repeat the command (with --resume "
                "for a run); torchrun --max-restarts does this automatically."
            ) from error
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _meeting_place(rank: int) -> Any:  # a TCPStore; torch has no public type
    """Return the rendezvous store, kept by rank 0 at a port that it publishes through torchrun's store.

    torchrun's store outlives restarts, with entries of earlier ranks (torch 2.15): new ranks that used it would wait
    for ranks that no longer exist. A rank that finds an old port gets no connection and asks again.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in every build of torch

    host = os.environ["MASTER_ADDR"]
    if (shared := _torchrun_store()) is None:
        port = int(os.environ["MASTER_PORT"])
        return TCPStore(host, port, is_master=rank == 0, timeout=RENDEZVOUS_TIMEOUT, wait_for_workers=False)
    if rank == 0:
        store = TCPStore(host, 0, is_master=True, timeout=RENDEZVOUS_TIMEOUT, wait_for_workers=False)
        shared.set(MEETING, str(store.port))
        return store
    while True:
        try:
            place = TCPStore(host, int(shared.get(MEETING)), timeout=ANSWER)
        except dist.DistError:
            continue
        place.set_timeout(RENDEZVOUS_TIMEOUT)
        return place


def _torchrun_store() -> Any:
    """Return torchrun's store, which outlives restarts; None without torchrun or if its store is not shared."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    return TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), timeout=RENDEZVOUS_TIMEOUT)
