"""Textual's driver for terminals, extended by terminal replies and Sixel."""

from collections.abc import Iterable
from typing import Any

from textual.driver import Driver
from textual.message import Message

from frn_tui.terminal.pixels import graphics_of
from frn_tui.terminal.terminal import Answers
from frn_tui.terminal.wire.cell_app import CellApp


def with_pixels(driver_class: type[Driver]) -> type[Driver]:
    """Extend the driver of Linux and macOS by replies and pixels; return any other unchanged."""
    if driver_class.__name__ != "LinuxDriver":
        return driver_class
    from textual._xterm_parser import XTermParser
    from textual.drivers import linux_driver

    class Parser(XTermParser):
        """Parser of keys and terminal replies."""

        def __init__(self, debug: bool = False) -> None:
            self._answers = Answers()
            super().__init__(debug)

        def feed(self, data: str) -> Iterable[Message]:
            typed, answered = self._answers.taken(data)
            yield from answered
            if typed or not data:  # empty input means the end
                yield from super().feed(typed)

    class PixelDriver(linux_driver.LinuxDriver):
        """Reads replies, and replaces placeholders by pixels if the terminal needs it."""

        ANSWERS = True

        def write(self, data: str) -> None:
            super().write(graphics_of(self._app).translated(data))

        def run_input_thread(self) -> None:
            module: Any = linux_driver  # the only way to replace its input parser
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
