"""An app that writes only changed cells, and image cells only as fast as the terminal accepts them."""

from math import inf
from time import monotonic
from typing import Any

from rich.color import ColorSystem
from rich.control import Control
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.screen import Screen

from frn_tui.terminal.wire.cell_buffer import CellBuffer

PING = "\x1b[5n"  # status query to the terminal, which answers once it has processed all earlier output
SMALLEST, LARGEST = 2_000, 1 << 20  # maximum number of image bytes that may be unconfirmed
QUICK, PATIENCE = 0.1, 2.0
"""Seconds that output may wait on the line, and after which a terminal without an answer counts as silent."""


class CellApp(App[None]):
    """Writes only the differences."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = CellBuffer()
        self._window = 3 * SMALLEST
        self._pinged: float | None = None  # time of the last query to the terminal, until it answers
        self._sent, self._delay = 0, inf  # bytes of images sent with it; the least time that an answer took

    def repaint(self) -> None:
        """Write everything again, because the terminal may have lost it."""
        self.cells.forget()
        self.refresh()

    def use_true_colour(self) -> None:
        self.console._color_system = ColorSystem.TRUECOLOR
        self.repaint()

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        driver = self._driver
        if renderable is None:  # nothing has changed
            return
        if driver is None or self.is_headless or driver.is_inline or self._batch_count or not self._running:
            super()._display(screen, renderable)
        elif isinstance(renderable, CompositorUpdate) and self.cells.take(renderable, *self.size):
            self._write_cells()
            self.post_display_hook()
        else:
            super()._display(screen, renderable)
            self.cells.forget()

    def _write_cells(self) -> None:
        driver = self._driver
        if driver is None or self._closed or not self.screen_stack:
            return
        room = self._window if self._pinged is None else 0
        text, pictures = self.cells.written(self.console._color_system or ColorSystem.TRUECOLOR, room)
        if not text:
            return
        if pictures and self._window < LARGEST and getattr(driver, "ANSWERS", False):
            text += PING
            self._pinged, self._sent = monotonic(), pictures
            self.set_timer(PATIENCE, self._no_answer)
        elif self.cells.is_stale and self._pinged is None:
            self.call_later(self._write_cells)
        cursor = self.screen.outer_size.clamp_offset(self.cursor_position)
        self._begin_update()
        driver.write(text + Control.move_to(*cursor).segment.text)
        self._end_update()
        driver.flush()

    def hear_pong(self) -> None:
        """The terminal has processed everything up to the last query."""
        if self._pinged is None:  # it does answer, but the line is slow
            self._window = SMALLEST
            return
        took = monotonic() - self._pinged
        self._delay = min(took, self._delay)
        is_slow = took - self._delay > QUICK
        self._window = (
            max(min(self._window, self._sent) // 2, SMALLEST) if is_slow else min(2 * self._window, LARGEST - 1)
        )
        self._pinged = None
        self._write_cells()

    def _no_answer(self) -> None:
        if self._pinged is not None and monotonic() - self._pinged >= PATIENCE:
            if self._window == 3 * SMALLEST:  # the terminal has never answered
                self._window = LARGEST
            self._pinged = None
            self._write_cells()
