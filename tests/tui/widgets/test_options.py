"""Keys that arrive before a list is laid out or after a screen is closed."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from frn_tui.dialogs.dialogs import Choose
from frn_tui.dialogs.picker import Picker
from frn_tui.widgets.lists import Options

if TYPE_CHECKING:
    from tests.tui.conftest import Driver


async def test_page_keys_do_nothing_in_a_hidden_list(play: Callable[..., Any]) -> None:
    options = Options("a", "b", "c")
    options.display = False
    pilot, _ = await play(options)
    options.highlighted = 1
    options.action_page_up()
    options.action_page_down()
    assert options.highlighted == 1
    options.display = True
    await pilot.pause()
    options.action_page_down()
    assert options.highlighted == 2
    options.action_page_up()
    assert options.highlighted == 0


@pytest.mark.app(size=(80, 24))
async def test_only_the_screen_on_top_can_be_answered(driver: "Driver") -> None:
    app = driver.app
    await driver.keys("p")
    below = app.screen
    assert isinstance(below, Picker)
    app.push_screen(Choose("above", ["a"]))
    await driver.pilot.pause()
    below.dismiss(None)
    assert [type(screen) for screen in app.screen_stack[-2:]] == [Picker, Choose]
    await driver.keys("escape", "escape")
    assert app.screen is app.workspace


@pytest.mark.app(size=(80, 24))
async def test_work_may_be_cancelled_before_its_first_step(driver: "Driver") -> None:
    begun = []

    async def work(number: int) -> None:
        begun.append(number)

    driver.app.workspace.context.start(work, 1).cancel()
    driver.app.workspace.context.start(work, 2)
    await driver.idle()
    assert begun == [2]
