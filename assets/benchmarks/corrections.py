"""Correct every wrong answer as a user of the app does, and count the keys.

    python assets/benchmarks/corrections.py DATA... --split val

Classes of each data set (DATA/val/CLASS/photo) are opened from a few photos, and other photos of them are classified.
An unknown photo counts as a wrong answer. The document of the app is driven without a screen. `L` and `n` show pages of
the least certain answers, with a letter on each, as many as fit at 140 x 40 cells. The letter of a wrong one leads to
the second likely class, again or with the number of the class to another one; `Y` confirms the others and turns the
page. The counting ends with the last wrong answer; a user who does not know it by then turns the other pages as well,
a key each. The last columns are the keys that the title states to 97%, and how many answers in percent are right after
as many, without unknown ones.
"""

import argparse
import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from frn_tui.client.client import EngineClient
from frn_tui.client.protocol import QueryAnswer
from frn_tui.document.controller import Controller
from frn_tui.document.review_state import Reviewed, effort
from frn_tui.widgets.gallery import tiled
from textual.geometry import Size
from tune import PHOTOS

from frn.models.zoo import DEFAULT_MODEL

ROOM = Size(139, 32)  # cells of the photos in the review


class User:
    """Answers questions and counts keys."""

    def __init__(self, controller: Controller) -> None:
        self.controller, self.keys = controller, 0
        grid = tiled(len(self.items), ROOM)
        self.page = ROOM.height // grid.pitch.height * grid.columns
        self.right: list[float] = []  # percentage of right answers, without unknown ones, after each key

    @property
    def items(self) -> dict[str, Reviewed]:
        return {item.path: item for item in self.controller.reviewed()}

    @property
    def wrong(self) -> set[str]:
        """Return the photos whose answer, or label, is not the name of their folder."""
        return {path for path, item in self.items.items() if item.said != Path(path).parent.name}

    def press(self, keys: int) -> None:
        self.keys += keys
        stated = [item.path for item in self.items.values() if item.label is not None or not item.is_unknown]
        self.right += [100 - 100 * len(self.wrong.intersection(stated)) / len(stated)] * keys

    async def correct(self) -> None:
        """Go through the pages until nothing is wrong. A label is right, so nothing on a former page is."""
        self.controller.arrangement.choose(self.controller.reviewed(), order="least certain first")
        self.press(2)  # L n
        while self.wrong:
            await self.turn()

    async def turn(self) -> None:
        """Correct the wrong answers of the next page, and confirm the others."""
        arrangement, items = self.controller.arrangement, self.items
        arrangement.sort(list(items.values()))
        page = [items[path] for path in arrangement.paths[arrangement.held :][: self.page]]
        arrangement.held += len(page)
        numbers = {name: number for number, name in self.controller.names.items()}
        confirmed: dict[int, list[QueryAnswer]] = {}
        for item in page:
            number = numbers[Path(item.path).parent.name]
            ranking = [score["id"] for score in item.answer["scores"]]
            ranking.sort(key=lambda class_id: class_id != item.label_id)
            if place := ranking.index(number):
                self.controller.label([item.answer], number)
                self.press(min(place, 2))
            else:
                confirmed.setdefault(number, []).append(item.answer)
        if self.wrong:  # otherwise the last page is done
            with self.controller.session.one_edit():
                for number, answers in confirmed.items():
                    self.controller.label(answers, number)
            await self.controller.sync()
            self.press(1)


async def correct(classes: dict[str, list[str]], photos: Sequence[str]) -> tuple[object, ...]:
    """Return a row of the table after the number of photos."""
    engine = EngineClient()
    await engine.start()
    try:
        controller = Controller(engine)
        await controller.open_model(DEFAULT_MODEL)
        await controller.open_folder(None, classes)
        await controller.ask(photos)
        user = User(controller)
        before, unknown = len(user.wrong), controller.query.rejected
        stated = effort(list(user.items.values()), user.page).split()
        await user.correct()
        if "key" not in " ".join(stated):
            return before, unknown, user.keys, "-", "-"
        keys = int(stated[1])
        return before, unknown, user.keys, keys, f"{(user.right[keys - 1 :] or [100.0])[0]:.1f}"
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
    print(
        "| data | photos | wrong | of them unknown | keys | stated to 97% | right then |\n|---|---|---|---|---|---|---|"
    )
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
            row = asyncio.run(correct(classes, photos))
        print("|", " | ".join(map(str, (root.name, len(photos), *row))), "|", flush=True)


if __name__ == "__main__":
    main()
