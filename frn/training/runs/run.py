"""A run in progress: started or resumed, saved periodically, stopped on request."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import nn

from frn._version import __version__
from frn.errors import FrnError
from frn.models.header import read_header
from frn.models.model import Model
from frn.system.distributed import ALONE, ProcessGroup
from frn.system.precision import Precision
from frn.training.presets.settings import lengthens
from frn.training.runs.run_folder import RunFolder, TrainState

Drawn = TypeVar("Drawn")


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run."""

    position: TrainState
    finished: bool
    """Whether the run is complete; an interrupted run can be resumed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings:
    """Settings for running a preset; only the seed and the precision affect the result."""

    seed: int = 0
    precision: Precision = "fp32"
    device: torch.device | str = "cpu"
    save_every: float = 60.0
    """Seconds between resumable checkpoints."""
    compiled: bool = False
    """Fuse the layers after each convolution; rounding then differs slightly, for the better."""
    resume: bool = False
    """Resume the run in the folder, with bit-identical results."""
    command: str = ""
    """Command to record in `config.toml`."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """Other entries of the model's record (data set, split, ...)."""
    ranks: ProcessGroup = ALONE


class TrainingRun:
    """Counts steps and epochs and writes checkpoints for any kind of training; the caller defines a step."""

    def __init__(
        self,
        folder: RunFolder,
        model: Model,
        objective: nn.Module,
        optimizer: torch.optim.Optimizer,
        decides: Mapping[str, object],
        settings: RunSettings,
    ) -> None:
        """Start in a folder without a run, or restore the run in it.

        A resumed run must have the same `decides` as at its start, but may have more epochs; the learning rate then
        follows the longer schedule. Raises FrnError if the folder is taken or cannot be written, another process trains
        in it, or its run has different settings.
        """
        if folder.writes:
            folder.claim()
            if not settings.resume:
                folder.require_free()
            folder.sweep()
        self.folder, self.model, self.objective, self.optimizer = folder, model, objective, optimizer
        self.decides, self.every, self.ranks = decides, settings.save_every, settings.ranks
        self.ranks.assert_same([__version__, dict(decides)])
        self.ranks.assert_same({"checksums of the photos": folder.pixels})
        self.position = folder.load_last(model, objective, optimizer, decides) if settings.resume else TrainState()
        self.spent = self.position.seconds
        self.began = self.saved = time.monotonic()
        if settings.resume and folder.writes:
            folder.rewind_metrics(self.position)
        longer = settings.resume and lengthens(read_header(folder.last)[1]["training"]["run"], decides)
        if folder.writes and (longer or not settings.resume):
            before = folder.commands() if settings.resume else []
            folder.write_config([*before, settings.command], decides)
            self.save()  # so that the run can be resumed from the start

    def save(self) -> None:
        """Write the resumable checkpoint."""
        self.saved = time.monotonic()
        self.position.seconds = self.spent + self.saved - self.began
        if self.folder.writes:
            self.folder.save_last(self.model, self.objective, self.optimizer, self.position, self.decides)

    def run_epochs(
        self,
        epochs: int,
        draw: Callable[[], Sequence[Drawn]],
        take: Callable[[Drawn, int], None],
        stop: Callable[[], bool],
        after_epoch: Callable[[], None] = lambda: None,
    ) -> RunResult:
        """Train to the end or until `stop` returns True, then release the folder.

        Args:
            epochs: total number of epochs.
            draw: returns the steps of the epoch at `position`, depending only on the seed and the epoch.
            take: called with a step and the number of steps in the epoch.
            stop: called after every step; True saves and returns. Ranks stop together.
            after_epoch: called after `position` has advanced to the next epoch.
        """
        try:
            position, rank, world = self.position, self.ranks.rank, self.ranks.world
            while position.epoch < epochs:
                steps = draw()
                if len(steps) < world:
                    raise FrnError(f"an epoch has {len(steps)} steps, fewer than the {world} ranks. Start fewer ranks.")
                while position.step + world <= len(steps):  # drop the last steps, which not every rank gets
                    take(steps[position.step + rank], len(steps))
                    position.step, position.total_steps = position.step + world, position.total_steps + 1
                    if self.ranks.any(stop()):
                        self.save()
                        return RunResult(position, finished=False)
                    if time.monotonic() - self.saved > self.every:
                        self.save()
                position.epoch, position.step = position.epoch + 1, 0
                after_epoch()
                self.save()
            return RunResult(position, finished=True)
        finally:
            self.folder.release()
