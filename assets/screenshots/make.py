"""Make the screenshots of the terminal app (saved beside this file): `python assets/screenshots/make.py`.

The script drives the app with its engine on the shipped samples and draws its screen. Nothing in the images depends on
the terminal, the time or the user's settings, so a second run writes the same bytes.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

here = Path(__file__).parent
QUERIES = len(list((here.parent / "samples" / "queries").iterdir()))
home = Path(tempfile.mkdtemp())
os.chdir(home)  # the file picker starts there
# set before Textual reads them
os.environ |= {
    "HOME": str(home),
    "FRN_STATE": str(home / ".state"),
    "FRN_CACHE": str(home / ".cache"),
    "TEXTUAL_ANIMATIONS": "none",
    "TEXTUAL_COLOR_SYSTEM": "truecolor",
    "TERM": "xterm-256color",
}
os.environ.pop("NO_COLOR", None)

from frn_tui.app import FrnApp  # noqa: E402
from frn_tui.widgets import jobs  # noqa: E402
from svg import draw  # noqa: E402
from textual.pilot import Pilot  # noqa: E402

jobs.PASSING = 600.0  # keep messages on the screen until the image is taken


class Stage:
    """The running app, with methods to press keys and to draw the screen."""

    def __init__(self, app: FrnApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> None:
        """Press keys one after the other; each waits until the work started by the previous key is done."""
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def settle(self, reached: Callable[[], object] = lambda: True) -> None:
        """Wait until no work is in progress."""
        for _ in range(3000):
            await self.pilot.pause(0.02)
            screens = self.app.screen_stack
            if reached() and not any(worker.is_running for screen in screens for worker in screen.workers):
                await self.pilot.pause(0.1)
                return
        sys.exit("the app did not settle")

    def take(self, name: str, label: str) -> None:
        strips = self.app.screen._compositor.render_strips()  # as in `App.export_screenshot`
        path = here / f"{name}.svg"
        path.write_text(draw(strips, self.app.size.width, label), encoding="utf-8")
        print(f"{path.name}  {path.stat().st_size / 1000:.0f} kB")


@asynccontextmanager
async def opened(width: int, height: int) -> AsyncIterator[Stage]:
    """Start the app on the samples, with the settings of a new user."""
    shutil.rmtree(home / ".state", ignore_errors=True)
    app = FrnApp(images="half")
    async with app.run_test(size=(width, height), tooltips=False) as pilot:
        stage = Stage(app, pilot)
        await stage.settle(
            lambda: len(app.controller.query.answers) == QUERIES and "maps" in app.controller.query.answers[0]
        )
        yield stage


async def show(stage: Stage, name: str) -> None:
    """Go to the next photo until the one with this name is displayed."""
    for _ in stage.app.controller.query.answers:
        if Path(stage.app.controller.query.answers[stage.app.controller.query.at]["path"]).stem == name:
            return
        await stage.press("full_stop")
    sys.exit(f"no answer for {name}")


async def screens() -> None:
    """Draw the app at three sizes, for README and docs."""
    async with opened(140, 40) as stage:
        await show(stage, "nautilus 7")
        await stage.press("5", "comma")
        stage.take("workspace", "Eight classes, the photos of one, and a query with its error map")
        await stage.press("L", "n")
        stage.take("results", "The least certain answers with a letter on each, and the histogram of the threshold")
    async with opened(80, 24) as stage:
        await show(stage, "nautilus 7")
        stage.take("small", "The app in 80 columns and 24 rows")


async def tour() -> None:
    """Draw five steps of a session, from the start to the reasons of an answer."""
    shutil.copytree(here.parent / "samples" / "queries", home / "photos")
    async with opened(120, 34) as stage:
        stage.take("tour-1", "The app starts on piles of sorted samples")
        await stage.press("p", "right", "end", "up")
        stage.take("tour-2", "Picking a photo to ask about")
        await stage.press("enter", "right_square_bracket")
        stage.take("tour-3", "Where another class could not rebuild the photo")
        await stage.press("8", "comma", "left_square_bracket")
        stage.take("tour-4", "The photo has become an example of its class, and is known")
        await stage.press("W")
        await asyncio.sleep(10)  # its photos are drawn after the work is done
        stage.take("tour-5", "The example parts that a part of the photo was rebuilt from")


async def main() -> None:
    """Make all images."""
    try:
        await screens()
        await tour()
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    asyncio.run(main())
