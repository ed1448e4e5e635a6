"""Textual's driver for terminals, which also hears what they answer and writes Sixel."""

from collections.abc import Iterable
from typing import Any

from textual.driver import Driver
from textual.message import Message

from frn_tui.terminal.pixels import graphics_of
from frn_tui.terminal.terminal import Answers
from frn_tui.terminal.wire.cell_app import CellApp


def with_pixels(driver_class: type[Driver]) -> type[Driver]:
    """The driver of Linux and macOS with answers and pixels; any other as it is."""
    if driver_class.__name__ != "LinuxDriver":
        return driver_class
    from textual._xterm_parser import XTermParser
    from textual.drivers import linux_driver

    class Parser(XTermParser):
        """Keys and answers."""

        def __init__(self, debug: bool = False) -> None:
            self._answers = Answers()
            super().__init__(debug)

        def feed(self, data: str) -> Iterable[Message]:
            typed, answered = self._answers.taken(data)
            yield from answered
            if typed or not data:  # nothing at all is the end
                yield from super().feed(typed)

    class PixelDriver(linux_driver.LinuxDriver):
        """Hears answers, and writes pixels in the place of placeholders where the terminal needs that."""

        ANSWERS = True

        def write(self, data: str) -> None:
            super().write(graphics_of(self._app).translated(data))

        def run_input_thread(self) -> None:
            module: Any = linux_driver  # it has no other place to say what reads the input
            module.XTermParser = Parser
            super().run_input_thread()

        def start_application_mode(self) -> None:
            super().start_application_mode()  # type: ignore[no-untyped-call]
            if isinstance(self._app, CellApp):  # also after the shell had the terminal
                self._app.cells.forget()
            graphics_of(self._app).send_again()

        def stop_application_mode(self) -> None:
            self.write(graphics_of(self._app).farewell())
            super().stop_application_mode()

    return PixelDriver
