"""A run in progress, and its folder: checkpoints, metrics and the configuration that reproduces it.

`last.safetensors` is a model file that also contains the optimiser and the position in the run. Together with the seed
this suffices for a bit-exact resume, because episodes and augmentations depend only on (seed, epoch, step).
"""

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import safetensors
import torch
from torch import Tensor, nn

from frn._version import __version__
from frn.errors import FrnError, FrnWarning
from frn.models.header import OPTIMIZER, STAGE, header, read_header, require_whole
from frn.models.model import Model, model_file
from frn.system.distributed import ALONE, ProcessGroup
from frn.system.files import (
    LOCK,
    MARK,
    MAX_LINES,
    open_to_append,
    read_regular,
    remove_unfinished,
    require_writable,
    write_atomically,
)
from frn.system.precision import Precision
from frn.system.processes.locks import Lock, holder
from frn.training.presets.preset import changes, lengthens

MAX_CONFIG = 1 << 20

Drawn = TypeVar("Drawn")


@dataclass(kw_only=True, slots=True)
class TrainState:
    """Progress of a run."""

    epoch: int = 0  # finished epochs
    step: int = 0  # finished episodes of the current epoch
    total_steps: int = 0  # finished episodes in total
    best: float = 0.0  # best validation accuracy so far, in percent
    seconds: float = 0.0  # training time, summed over all sessions of the run


_held: dict[Path, Lock] = {}  # locks on the folders in which this process trains


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        """Use a run's folder; ranks other than the first only read it."""
        self.path, self.writes = path, writes
        self.last = path / "last.safetensors"
        self.best = path / "best.safetensors"
        self.metrics = path / "metrics.jsonl"
        self.config = path / "config.toml"
        self.pixels: list[int] = []  # checksums of the photos; if they differ, a resumed run continues with a warning

    def claim(self) -> None:
        """Lock the folder. Raises FrnError if another process trains here or the lock cannot be created."""
        known = _held.get(self.path.absolute())
        if known is not None and known.is_held():
            return
        wanted = Lock(self.path / f".{LOCK}")
        try:
            is_ours = wanted.acquire()
        except OSError as error:
            raise FrnError(f"{self.path}: cannot be written ({error.strerror})") from error
        if not is_ours:
            raise FrnError(
                f"{self.path}: {holder(wanted.path)} is already training there. Wait until it ends, or give another "
                "--out."
            )
        _held[self.path.absolute()] = wanted

    def release(self) -> None:
        """Release the folder for other processes."""
        if (held := _held.pop(self.path.absolute(), None)) is not None:
            held.release()

    def sweep(self) -> None:
        """Remove files that a killed run left incomplete."""
        for file in (self.last, self.best, self.metrics, self.config):
            remove_unfinished(file)

    def require_free(self) -> None:
        """Raise FrnError if the folder contains a run, other files with the same names, or folders."""
        if self.last.exists():
            raise FrnError(f"{self.path}: already contains a run. Add --resume to continue it, or give another --out.")
        require_writable(self.config)
        if self.config.exists():
            return
        for file in (self.best, self.metrics):
            if file.exists():
                raise FrnError(f"{file}: already exists and does not belong to a run. Give another --out.")
        if others := [each for each in self.path.glob("[!.]*/") if each.is_dir() and each.name != "tensorboard"]:
            raise FrnError(f"{self.path}: contains folders, such as {others[0].name}. Give another --out.")

    def save_last(
        self,
        model: Model,
        objective: nn.Module,
        optimizer: torch.optim.Optimizer,
        position: TrainState,
        run: Mapping[str, object],
    ) -> None:
        """Write the resumable checkpoint atomically."""
        tensors = {**model.state_dict(), **{f"{STAGE}{name}": value for name, value in objective.state_dict().items()}}
        state = optimizer.state_dict()["state"]
        for index, entries in state.items():
            tensors |= {f"{OPTIMIZER}{index}/{name}": value for name, value in entries.items()}
        record = {**model.record, "training": {"place": asdict(position), "run": run, "pixels": self.pixels}}
        contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        write_atomically(self.last, model_file(contiguous, header(model.config, record)))

    def load_last(
        self, model: Model, objective: nn.Module, optimizer: torch.optim.Optimizer, run: Mapping[str, object]
    ) -> TrainState:
        """Restore model, objective and optimiser, and return the position in the run.

        Raises FrnError if the checkpoint is missing, or its run has different settings, apart from fewer epochs.
        """
        if not self.last.is_file():
            raise FrnError(f"{self.path}: has no last.safetensors to resume from. Remove --resume to start.")
        _, record = read_header(self.last)
        require_whole(self.last)
        training: dict[str, Any] | None = record.get("training")
        if training is None:
            raise FrnError(f"{self.last}: is a model, but not the checkpoint of a run")
        differing = changes(training["run"], run)
        if differing and not lengthens(training["run"], run):
            listed = ", ".join(differing[:4])
            raise FrnError(
                f"{self.path}: was started with different settings ({listed}). Use the same settings, or another --out."
            )
        if training.get("pixels", self.pixels) != self.pixels and self.writes:
            change = "photos have changed since the run last trained; it continues with the current ones"
            warnings.warn(f"{self.path}: {change}", FrnWarning, stacklevel=2)
        tensors = read_tensors(self.last)
        model.load_state_dict({name: t for name, t in tensors.items() if not name.startswith((OPTIMIZER, STAGE))})
        try:
            objective.load_state_dict({n.removeprefix(STAGE): t for n, t in tensors.items() if n.startswith(STAGE)})
        except RuntimeError as error:
            raise FrnError(
                f"{self.last}: its run has an auxiliary head or a teacher, which only frn 0.1.0 can train. Use its "
                "best.safetensors, or start again."
            ) from error
        state: dict[int, dict[str, Tensor]] = {}
        for name in (name for name in tensors if name.startswith(OPTIMIZER)):
            index, entry = name.removeprefix(OPTIMIZER).split("/")
            state.setdefault(int(index), {})[entry] = tensors[name]
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        known = {field.name for field in fields(TrainState)}  # other versions may have more fields
        return TrainState(**{name: value for name, value in training["place"].items() if name in known})

    def rewind_metrics(self, position: TrainState) -> None:
        """Drop the lines that a killed run wrote after its last checkpoint.

        The validation of an unfinished epoch is also dropped because it will be repeated.
        """
        if not self.metrics.exists():
            return
        kept, validated = [], position.total_steps > 0 and not position.step
        for line in read_regular(self.metrics, MAX_LINES).decode(errors="replace").splitlines():
            try:
                values = json.loads(line)
                behind = position.total_steps - values["total_steps"]
                if behind > 0 or (behind == 0 and ("loss" in values or validated)):
                    kept.append(line + "\n")
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # an incomplete line of a killed run
        write_atomically(self.metrics, "".join(kept), replace=True)

    def append_metrics(self, **values: object) -> None:
        """Append one JSON line to the metrics."""
        if not self.writes:
            return
        try:
            with open_to_append(self.metrics) as file:
                file.write(f"{json.dumps(values)}\n".encode())
        except OSError as error:
            raise FrnError(
                f"{self.metrics}: cannot be written ({error.strerror}). Fix that and continue with --resume."
            ) from error

    def commands(self) -> list[str]:
        """Return the commands in the first lines of the configuration."""
        if not self.config.exists():
            return []
        lines = read_regular(self.config, MAX_CONFIG).decode(errors="replace").splitlines()
        said = [line.removeprefix("# ") for line in takewhile(lambda line: line.startswith("#"), lines)]
        return [line for line in said if line != MARK]

    def write_config(self, commands: Sequence[str], run: Mapping[str, object]) -> None:
        """Write the settings as TOML, headed by the commands that reproduce and extend the run."""
        tables: dict[str, Mapping[str, object]] = {"": {}}
        tables |= {name: value for name, value in run.items() if isinstance(value, Mapping)}
        tables[""] = {name: value for name, value in run.items() if name not in tables}
        lines = [f"# {line}\n" for line in (MARK, *commands)]
        for name, table in tables.items():
            lines += [f"\n[{name}]\n"] if name else []
            # JSON's strings, numbers, booleans and lists are TOML's.
            lines += [f"{key} = {json.dumps(value)}\n" for key, value in table.items() if value is not None]
        write_atomically(self.config, "".join(lines))


def read_tensors(file: Path, part: str = "") -> dict[str, Tensor]:
    """Return the tensors of a file whose names begin with `part`, by name without `part`."""
    with safetensors.safe_open(file, framework="pt") as opened:
        names = [name for name in opened.keys() if name.startswith(part)]  # noqa: SIM118  (not a dict)
        return {name.removeprefix(part): opened.get_tensor(name) for name in names}


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run."""

    position: TrainState
    finished: bool  # whether the run is complete; an interrupted run can be resumed


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings:
    """Settings of a run. The seed, the precision and the number of ranks affect its result."""

    seed: int = 0
    precision: Precision = "fp32"
    device: torch.device | str = "cpu"
    save_every: float = 60.0  # seconds between resumable checkpoints
    resume: bool = False  # resume the run in the folder, with bit-identical results
    command: str = ""  # command to record in `config.toml`
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
                    take(steps[position.step + rank], len(steps) - len(steps) % world)
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
