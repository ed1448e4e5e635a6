"""Every key does what the table says, for any focused pane."""

from typing import Any

import pytest
from frn_tui.panes.project import PANES
from frn_tui.screens.workspace import bindings

from tests.tui.conftest import Drive, Driver

MOVES = {"h", "l", "j", "k", "up", "down", "left", "right", "enter", "space", "v", "ctrl+a", "home", "end"}
"""Keys that lists and photos use while they have the focus."""


@pytest.mark.parametrize("pane", PANES)
def test_every_key_of_the_table_does_what_it_says_in_every_pane(
    pane: str, drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = [(key, binding.action) for binding in bindings() for key in binding.key.split(",") if key not in MOVES]
    assert len(table) > 60
    done: list[str] = []

    async def scenario(driver: Driver) -> None:
        driver.app.workspace.ask(["/queries"])
        await driver.idle()
        driver.app.workspace.focus_pane(pane)
        await driver.pilot.pause()
        run_action = driver.app.run_action

        async def noted(action: Any, *where: Any, **how: Any) -> bool:
            done.append(action)
            return True

        for key, action in table:
            done.clear()
            monkeypatch.setattr(driver.app, "run_action", noted)
            await driver.pilot.press(key)
            monkeypatch.setattr(driver.app, "run_action", run_action)
            assert done[:1] == [action], key

    drive(scenario)
