"""Keys in the order in which they were pressed, each handled before the next.

A key may open or close a dialogue. Textual hands each key immediately to the widget with the focus, whose own queue may
lag behind. Pasted text without brackets, or keys typed ahead, would then go to a widget that is no longer on top.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from textual import events
from textual.app import App
from textual.dom import DOMNode
from textual.message_pump import MessagePump

FRAME = 0.3  # seconds after which the screen is painted while more keys wait


class InputQueue:
    """Hands input events to an app, one after another."""

    def __init__(self, app: App[Any], handle: Callable[[events.Event], Awaitable[None]]) -> None:
        """Give each event to `handle`, which passes it on to the widget with the focus."""
        self._app, self._handle = app, handle
        self._waiting: deque[events.Event] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def put(self, event: events.Event) -> None:
        """Handle an event: immediately if no other is in progress, otherwise in order."""
        if self._worker is not None and not self._worker.done():
            self._waiting.append(event)
            return
        await self._handle(event)
        self._worker = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        await self._settle()
        while self._waiting and self._app.screen_stack:
            with self._app.batch_update():  # screens between keys that were sent together are never seen
                until = monotonic() + FRAME
                while self._waiting and self._app.screen_stack and monotonic() < until:
                    self._app.call_later(self._handle, self._waiting.popleft())
                    await self._settle()
            await asyncio.sleep(FRAME / 10)

    async def _settle(self) -> None:
        """Wait until the effects of the last event are complete and the widget on top is ready for the next."""
        try:
            # Seconds that a key waits for the one before it, so that one stuck key does not block all others
            async with asyncio.timeout(2.0):
                await _has_worked(self._app)
                before: object = None
                while self._app.screen_stack and before != (before := (self._app.screen, self._app.focused)):
                    for node in self._concerned():
                        await _has_worked(node)
        except TimeoutError:
            return

    def _concerned(self) -> list[MessagePump]:
        """Return the nodes that may receive an event, in the order in which messages bubble."""
        focused = self._app.focused
        nodes: list[DOMNode] = [] if focused is None else list(focused.ancestors_with_self)
        nodes += [screen for screen in reversed(self._app.screen_stack) if screen not in nodes]
        return [*(node for node in nodes if node is not self._app), self._app]


async def _has_worked(node: MessagePump) -> None:
    """Wait until a node has handled its current messages."""
    done = asyncio.Event()
    if node.is_running and node.call_later(done.set):
        await done.wait()
