"""Correct every wrong answer as a user of the app does, and count the keys.

    python assets/benchmarks/corrections.py DATA... --split val

Classes of each data set (DATA/val/CLASS/photo) are opened from a few photos, and other photos of them are classified.
An unknown photo counts as a wrong answer. The document of the app is driven without a screen; each step counts the keys
that it takes at 140 x 40 cells:

    unknown    the review (`L`) lists the unknown photos (`f`) and takes their nearest classes (`ctrl+a`, `y`); those
               that are wrong get the number of their class
    doubtful   `n` goes to the least certain answer, which is confirmed (`y`) or gets a number; the next one follows,
               until the title no longer says how many keys are left to 97%
    the rest   the least certain come first (`s`); pages and arrow keys go to each wrong one, which gets its number
"""

import argparse
import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from frn_tui.client.client import EngineClient
from frn_tui.document.controller import Controller
from frn_tui.document.review_state import Reviewed, effort, questions
from frn_tui.widgets.gallery import tiled
from textual.geometry import Size
from tune import PHOTOS

from frn.models.zoo import DEFAULT_MODEL

ROOM = Size(139, 32)  # cells of the photos in the review


class User:
    """Answers questions and counts keys."""

    def __init__(self, controller: Controller) -> None:
        self.controller, self.keys = controller, 1  # `L`

    @property
    def items(self) -> dict[str, Reviewed]:
        return {item.path: item for item in self.controller.reviewed()}

    @property
    def wrong(self) -> set[str]:
        """Return the photos whose answer, or label, is not the name of their folder."""
        return {path for path, item in self.items.items() if item.said != Path(path).parent.name}

    async def label(self, path: str) -> None:
        """Press the number of the class of a photo, or `y`."""
        self.keys += 1
        (number,) = (place for place, name in self.controller.names.items() if name == Path(path).parent.name)
        self.controller.label([self.items[path].answer], number)
        await self.controller.sync()

    async def unknown(self) -> None:
        """Take the nearest class of all unknown photos, and correct it."""
        if some := [item for item in self.items.values() if item.is_unknown]:
            self.keys += 6  # f down down enter ctrl+a y
            for item in some:
                self.controller.label([item.answer], item.answer["scores"][0]["id"])
            await self.controller.sync()
            await self.walk([item.path for item in some])
            self.keys += 2  # f enter

    async def doubtful(self) -> None:
        """Answer the least certain ones as long as the title counts keys."""
        self.keys += 1  # n
        while "key" in effort(items := list(self.items.values())) and (some := questions(items)):
            await self.label(some[0].path)

    async def rest(self) -> None:
        """Look through all answers and correct them."""
        self.controller.arrangement.choose(self.controller.reviewed(), order="least certain first")
        while self.wrong:  # a label may make an answer wrong that was passed
            self.keys += 1  # s, later home
            await self.walk(list(self.controller.arrangement.paths))

    async def walk(self, paths: Sequence[str]) -> None:
        """Go through photos by the shortest way, and correct the wrong ones."""
        grid, cursor = tiled(len(paths), ROOM), 0
        page = max(ROOM.height // grid.pitch.height, 1)
        for place, path in enumerate(paths):
            if path in self.wrong:
                ways = []
                for lines in range((place - cursor) // grid.columns, (place - cursor) // grid.columns + 2):
                    pages, beyond = divmod(lines, page)
                    across = abs(place - cursor - lines * grid.columns)
                    ways += [pages + beyond + across, pages + 1 + page - beyond + across]
                self.keys += min(ways)
                await self.label(path)
                cursor = min(place + 1, len(paths) - 1)


async def correct(classes: dict[str, list[str]], photos: Sequence[str]) -> tuple[int, int, int]:
    """Return the wrong answers, how many of them are unknown, and the keys until all are right."""
    engine = EngineClient()
    await engine.start()
    try:
        controller = Controller(engine)
        await controller.open_model(DEFAULT_MODEL)
        await controller.open_folder(None, classes)
        await controller.ask(photos)
        user = User(controller)
        before, unknown = len(user.wrong), controller.query.rejected
        await user.unknown()
        await user.doubtful()
        await user.rest()
        return before, unknown, user.keys
    finally:
        await engine.close()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="Data sets.")
    parser.add_argument("--split", default="val")
    for name, value in (("seed", 0), ("way", 8), ("shot", 5), ("queries", 50)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    print("| data | photos | wrong | of them unknown | keys |\n|---|---|---|---|---|")
    for root in options.data:
        draws = np.random.default_rng(options.seed)
        homes = sorted((root / options.split).iterdir())
        classes, photos = {}, []
        for place in draws.permutation(len(homes))[: options.way]:
            files = sorted(str(path) for path in homes[place].rglob("*") if path.is_file())
            drawn = [files[number] for number in draws.permutation(len(files))[:PHOTOS]]
            classes[homes[place].name] = drawn[: options.shot]
            photos += sorted(drawn[options.shot :][: options.queries])
        with tempfile.TemporaryDirectory() as folder:
            os.environ["FRN_STATE"] = folder
            before, unknown, keys = asyncio.run(correct(classes, photos))
        print(f"| {root.name} | {len(photos)} | {before} | {unknown} | {keys} |", flush=True)


if __name__ == "__main__":
    main()
