"""Background work: a watched folder, and the remaining time of a job."""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.tui.conftest import Driver


async def test_progress_of_a_job_stays_while_an_edit_ends(driver: "Driver") -> None:
    context, ended = driver.app.context, asyncio.Event()
    context.start(ended.wait)
    context.progress("Opening 3 classes", 2, 9)
    context.edit(lambda session: session.create("wren"))
    await driver.until(lambda: not any(worker.group == "edit" for worker in driver.app.workspace.workers))
    assert "2/9" in str(context.jobs.render())
    ended.set()
    await driver.idle()
    assert "2/9" not in str(context.jobs.render())
