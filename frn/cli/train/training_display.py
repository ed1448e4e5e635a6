"""Progress display for a training run: a bar or one line per epoch, validation results, TensorBoard events."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from frn.cli.shell.console import live_text, note
from frn.training.loop import StepReport, ValidationReport

SMOOTHING = 0.98  # smoothing factor for the displayed loss and accuracy; the metrics file records the raw values

LASTING = 50  # number of consecutive diverging steps before a warning, because some runs recover


@contextmanager
def training_display(epochs: int, out: Path) -> Iterator[Callable[[StepReport | ValidationReport], None]]:
    """Yield a report callback for `frn.training.loop.train`."""
    smooth: list[float] = []
    troubled = 0
    is_terminal = sys.stderr.isatty()

    def report(event: StepReport | ValidationReport) -> None:
        nonlocal smooth, troubled
        log(event)
        if isinstance(event, ValidationReport):
            note(f"epoch {event.epoch}: validation {event.accuracy}{'  best so far' if event.is_best else ''}")
            return
        now = (event.loss, event.accuracy)
        smooth = [SMOOTHING * old + (1 - SMOOTHING) * new for old, new in zip(smooth or now, now, strict=True)]
        text = f"epoch {event.epoch}/{epochs}: loss {smooth[0]:.3f}  accuracy {smooth[1]:.1f}%"
        done = (event.epoch - 1) * event.steps_in_epoch + event.step
        show(text, completed=done, total=epochs * event.steps_in_epoch)
        if event.step == event.steps_in_epoch and not is_terminal:
            note(text)
        troubled = troubled + 1 if event.divergence else 0
        if troubled == LASTING:
            note(
                f"warning: {event.divergence}, for {LASTING} steps. "
                "If the accuracy does not rise, start again with --warm-up 200"
            )

    with _events(out / "tensorboard") as log, live_text("training", is_bar=True, shown=is_terminal) as show:
        yield report


@contextmanager
def _events(folder: Path) -> Iterator[Callable[[StepReport | ValidationReport], None]]:
    """Yield a function that writes TensorBoard events if the extra `tensorboard` is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        yield lambda event: None
        return
    writer: SummaryWriter | None = None
    is_on = True

    def log(event: StepReport | ValidationReport) -> None:
        nonlocal writer, is_on
        if not is_on:
            return
        try:
            writer = writer or SummaryWriter(str(folder))
            for name, value in event.scalars.items():
                writer.add_scalar(name, value, event.total_steps)
        except OSError as error:  # training must not fail because of TensorBoard: the metrics file has the same numbers
            note(f"warning: TensorBoard events cannot be written: {error}")
            is_on = False

    try:
        yield log
    finally:
        if writer is not None:
            with suppress(OSError):
                writer.close()


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop; the second one ends the program immediately."""
    interrupted = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
