"""Progress display for a training run: a bar or one line per epoch, validation results, TensorBoard events."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from frn.cli.shell.console import note
from frn.training.loop import StepReport, ValidationReport
from frn.training.presets import Preset

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

SMOOTHING = 0.98
"""Smoothing factor for the displayed loss and accuracy; the metrics file records the raw values."""

LASTING = 50
"""Number of consecutive diverging steps before a warning, because some runs recover."""


class TrainingDisplay:
    """Report callback for `frn.training.loop.train`."""

    def __init__(self, preset: Preset, out: Path) -> None:
        self.preset = preset
        self.console = Console(stderr=True, highlight=False)
        self.events = out / "tensorboard"
        self.writer: SummaryWriter | None = None
        self.loss: float | None = None
        self.accuracy = 0.0
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("loss {task.fields[loss]:.3f}  accuracy {task.fields[accuracy]:.1f} %"),
            TextColumn("{task.fields[rate]:.1f} episodes/s"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task(
            "train", total=None, epoch=1, epochs=preset.schedule.epochs, loss=0.0, accuracy=0.0, rate=0.0
        )
        self.shown_from: int | None = None
        self.troubled = 0

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()
        if self.writer is not None:
            with suppress(OSError):
                self.writer.close()

    def __call__(self, event: StepReport | ValidationReport) -> None:
        """Show a training step or a validation."""
        if isinstance(event, ValidationReport):
            self._show_validation(event)
        else:
            self._show_step(event)

    def _show_step(self, event: StepReport) -> None:
        if self.loss is None:
            self.loss, self.accuracy = event.loss, event.accuracy
        self.loss = SMOOTHING * self.loss + (1 - SMOOTHING) * event.loss
        self.accuracy = SMOOTHING * self.accuracy + (1 - SMOOTHING) * event.accuracy
        done = (event.epoch - 1) * event.steps_in_epoch + event.step
        if self.shown_from is None:  # a resumed run starts later; measure its rate from there
            self.shown_from = done - 1
            self.bar.reset(self.task, completed=self.shown_from)
            self.writer = _summary_writer(self.events)
        elapsed = self.bar.tasks[0].elapsed or 0.0
        rate = (done - self.shown_from) / elapsed if elapsed else 0.0
        self.bar.update(
            self.task,
            total=self.preset.schedule.epochs * event.steps_in_epoch,
            completed=done,
            epoch=event.epoch,
            loss=self.loss,
            accuracy=self.accuracy,
            rate=rate,
        )
        if event.step == event.steps_in_epoch and not self.console.is_terminal:
            self._note_epoch(event, rate)
        self._log(event.scalars, event.total_steps)
        self.troubled = self.troubled + 1 if event.divergence else 0
        if self.troubled == LASTING:
            note(
                f"warning: {event.divergence}, for {LASTING} steps. "
                "If the accuracy does not rise, start again with --warm-up 200"
            )

    def _note_epoch(self, event: StepReport, rate: float) -> None:
        """Print one log line for an epoch, because no bar is shown."""
        epochs = self.preset.schedule.epochs
        left = (epochs - event.epoch) * event.steps_in_epoch / rate / 60 if rate else 0.0
        note(
            f"epoch {event.epoch}/{epochs}: loss {self.loss:.3f}  accuracy {self.accuracy:.1f} %  "
            f"{rate:.1f} episodes/s  {left:.0f} min left"
        )

    def _show_validation(self, event: ValidationReport) -> None:
        what, mark = f"epoch {event.epoch}: validation {event.accuracy}", "  best so far" if event.is_best else ""
        if self.console.is_terminal:
            self.console.print(f"{what}[bold]{mark}[/bold]")
        else:
            note(what + mark)
        self._log(event.scalars, event.total_steps)

    def _log(self, scalars: dict[str, float], step: int) -> None:
        if self.writer is None:
            return
        try:
            for name, value in scalars.items():
                self.writer.add_scalar(name, value, step)
        except OSError as error:  # training must not fail because of TensorBoard: the metrics file has the same numbers
            note(f"warning: TensorBoard events can no longer be written: {error}")
            self.writer = None


def _summary_writer(folder: Path) -> "SummaryWriter | None":
    """Return a TensorBoard writer if the extra `tensorboard` is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    try:
        return SummaryWriter(str(folder))
    except OSError as error:
        note(f"warning: TensorBoard events cannot be written: {error}")
        return None


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop; the second one ends the program at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
