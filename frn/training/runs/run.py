"""A run in progress: begun or resumed, saved now and then, stopped when asked."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import nn

from frn._version import __version__
from frn.errors import FrnError
from frn.models.model import Model
from frn.system.distributed import ALONE, ProcessGroup
from frn.system.precision import Precision
from frn.training.runs.run_folder import RunFolder, TrainState

Drawn = TypeVar("Drawn")


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended."""

    position: TrainState
    finished: bool
    """False if it was interrupted; it can then be resumed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings:
    """How to run a preset: what changes nothing about what is learned, but for the seed and the number format."""

    seed: int = 0
    precision: Precision = "fp32"
    device: torch.device | str = "cpu"
    save_every: float = 60.0
    """Seconds between resumable checkpoints."""
    compiled: bool = False
    """Take what follows a convolution as one function; rounds otherwise, a little better."""
    resume: bool = False
    """Continue the run in the folder, bit for bit."""
    command: str = ""
    """Noted in `config.toml`."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """What else the model's record says (data set, split, ...)."""
    ranks: ProcessGroup = ALONE
    """The processes that train together."""


class TrainingRun:
    """Steps, epochs and checkpoints of whatever is trained; what a step does is its caller's."""

    def __init__(
        self,
        folder: RunFolder,
        model: Model,
        objective: nn.Module,
        optimizer: torch.optim.Optimizer,
        decides: Mapping[str, object],
        settings: RunSettings,
    ) -> None:
        """Begin in a folder without a run, or restore the one that is there.

        `decides` is what a resumed run must share with its beginning; it may have more epochs: from here on the rate is
        that of the longer schedule. FrnError if the folder is taken, another process trains in it, it cannot be
        written, or the run in it has other settings.
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
        if folder.writes and (not settings.resume or folder.is_lengthened(decides)):
            before = folder.commands() if settings.resume else []
            folder.write_config([*before, settings.command], decides)
            self.save()  # from the first moment there is something to resume

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
        """Train to the end, or until `stop` says so; the folder is free for others then.

        Args:
            epochs: in all.
            draw: the steps of the epoch that `position` is in; a function of the seed and the epoch.
            take: one of them, and how many the epoch has.
            stop: asked after every step; True saves and returns. Ranks stop together.
            after_epoch: called when `position` has left one.
        """
        try:
            position, rank, world = self.position, self.ranks.rank, self.ranks.world
            while position.epoch < epochs:
                steps = draw()
                if len(steps) < world:
                    raise FrnError(f"an epoch has {len(steps)} steps, fewer than the {world} ranks. Start fewer.")
                while position.step + world <= len(steps):  # the rest would leave some ranks without
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
