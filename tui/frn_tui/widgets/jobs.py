"""Line with the running job and messages."""

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive
from textual.timer import Timer
from textual.widgets import Static

from frn_tui.terminal.text import bar, display_name

PASSING = 6.0  # seconds that a message is shown


class JobLine(Static):
    """Line with the running job and its progress on the left, and a passing message on the right."""

    hint = reactive("")  # text shown while there is neither a job nor a message

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(markup=False, id=id)
        self._job: tuple[str, int, int, float | None] | None = None
        self.shown_message = ""
        self._timer: Timer | None = None

    def show(self, what: str, done: int, total: int, seconds_left: float | None = None) -> None:
        """Show the progress of a job; `seconds_left` is None if unknown."""
        self._job = what, done, total, seconds_left
        self.refresh()

    def say(self, text: str) -> None:
        self.shown_message = text
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(PASSING, self._forget)
        self.refresh()

    def clear(self) -> None:
        self._job = None
        self.refresh()

    def _forget(self) -> None:
        self.shown_message = ""
        self.refresh()

    def render(self) -> Content:
        width = self.size.width
        progress = _progress(width, *self._job) if self._job else ""
        room = width - cell_len(progress) - (2 if progress else 0)
        message = display_name(self.shown_message, room) if room >= min(20, cell_len(self.shown_message)) else ""
        if not progress:
            return Content(message or display_name(self.hint, width))
        return Content(progress + message.rjust(width - cell_len(progress) - cell_len(message) + len(message)))


def _progress(width: int, what: str, done: int, total: int, seconds: float | None) -> str:
    """Return what fits, dropping the least important first: the hint, the bar, the end of the text."""
    share = min(done / total, 1.0)
    remaining = "" if seconds is None else f"  {duration(seconds)} left"
    numbers, drawn = f"{done:,}/{total:,} {100 * share:.0f}%{remaining}", bar(share, 12, rest="─")
    for rest in (f"{drawn}  {numbers}  esc: cancel", f"{drawn}  {numbers}", numbers):
        room = width - cell_len(rest) - 2
        if room >= min(12, cell_len(what)):
            return f"{display_name(what, room)}  {rest}"
    return display_name(numbers, width)


def duration(seconds: float) -> str:
    """Return the remaining time in the largest suitable unit."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
