"""Tasks by keyboard and one by mouse take exactly as many key presses or clicks as docs/lab/tasks.md lists."""

import re
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from frn_tui.dialogs.dialogs import Closeup
from frn_tui.dialogs.picker import Picker
from frn_tui.document.lettered_page import LETTERS
from frn_tui.panes.review import Review

from tests.tui.conftest import Drive, Driver
from tests.tui.fake_engine import FakeEngine

CLASSES = ["finch", "jay", "owl", "tit", "wren"]
WRONG = (3, 11, 24, 37)  # positions of photos that belong to the next class, among the 40 photos with the same answer
DOUBTED = (3, 7, 11, 18, 24, 29, 37)  # positions of doubtful answers, including the wrong ones
ASKED = [f"{name}-{100 + number}.jpg" for name in CLASSES for number in range(40)]
TABLE = Path(__file__).parents[3] / "docs" / "lab" / "tasks.md"


class User:
    """Presses and counts keys."""

    def __init__(self, driver: Driver, engine: FakeEngine) -> None:
        self.driver, self.app, self.engine, self.pressed = driver, driver.app, engine, 0

    async def press(self, keys: str | Iterable[str]) -> None:
        words = keys.split() if isinstance(keys, str) else list(keys)
        self.pressed += len(words)
        for word in words:
            await self.driver.pilot.press(word)
            if isinstance(self.app.screen, Picker):
                await self.driver.until(lambda: not any(worker.is_running for worker in self.app.screen.workers))
        await self.driver.idle()

    async def begin(self) -> None:
        """Set up the initial state of most tasks; these keys do not count."""
        await self.press("a left f i f2")
        await self.press("p a s f2")
        self.pressed = 0

    @property
    def asked(self) -> str:
        """Return the displayed photo."""
        answer = self.app.controller.query.answer
        return answer["path"] if answer else ""

    @property
    def labels(self) -> dict[str, str]:
        return {Path(item.path).name: item.label or "" for item in self.app.controller.reviewed()}


async def classes(user: User) -> None:
    """Enroll five classes from folders."""
    await user.press("a left f i f2")
    assert user.driver.counts == dict.fromkeys(CLASSES, 5)


async def three_folders(user: User) -> None:
    """Enroll five classes from three folders of class folders."""
    await user.press("a right space space ctrl+down space space ctrl+down space f2")
    assert user.driver.counts == dict.fromkeys(CLASSES, 5)


async def scattered(user: User) -> None:
    """Enroll classes from folders at different depths of one folder."""
    await user.press("a f2 enter")
    assert user.driver.counts == {"jay": 2, "owl": 2}


async def questions(user: User) -> None:
    """Enroll five classes from folders, classify 200 photos, then confirm or correct each answer."""
    await classes(user)
    await user.press("p a s f2")
    await user.press("L n")
    review = user.app.screen
    assert isinstance(review, Review)
    while review.page:
        for at, path in enumerate(list(review.page.classes)):
            own, number = Path(path).name[:-4].split("-")
            right = (CLASSES.index(own) + (int(number) - 100 in WRONG)) % 5
            ranking = [review.controller.names[class_id] for class_id in review.page.classes[path]]
            if place := ranking.index(CLASSES[right]):
                await user.press(LETTERS[at] if place == 1 else f"{LETTERS[at]} {right + 1}")
        await user.press("Y")
    for name, label in user.labels.items():
        own, number = name[:-4].split("-")
        assert label == CLASSES[(CLASSES.index(own) + (int(number) - 100 in WRONG)) % 5]


async def one_photo(user: User) -> None:
    """Classify one photo and see which parts its class does not explain."""
    await user.press("p a s enter o w l enter H")
    shown = user.app.workspace.query_pane.picture
    assert user.asked.startswith("/asked/owl")
    assert shown.look != "photo" or shown.has_map


async def correction(user: User) -> None:
    """Assign the displayed photo to a different class; the next photo is shown."""
    await user.press("3")
    assert next(iter(user.labels.values())) == "owl"
    assert user.asked.endswith("finch-101.jpg")


async def threshold(user: User) -> None:
    """Set the threshold to 62.5%."""
    await user.press("percent_sign home ctrl+k 6 2 full_stop 5 enter")
    assert user.app.controller.threshold == 0.625


async def twelve(user: User) -> None:
    """Assign the first twelve photos to class 2."""
    await user.press(["L", *["space"] * 12, "2"])
    assert list(user.labels.values()) == ["jay"] * 12 + [""] * 188


async def misfits(user: User) -> None:
    """List the photos in 210 classes that do not fit, the likeliest mistakes first."""
    await user.press("exclamation_mark")
    assert user.app.workspace.photos_pane.everywhere == "outlier"


async def merge(user: User) -> None:
    """Merge two classes."""
    await user.press("r ctrl+u j a y enter enter")
    assert user.driver.counts == {"jay": 10, "owl": 5, "tit": 5, "wren": 5}


async def closer(user: User) -> None:
    """Enlarge an example, zoom in twofold, then show the next example."""
    await user.press("shift+tab z z Z right")
    assert isinstance(user.app.screen, Closeup)
    assert user.app.screen.at == 1


async def sort(user: User) -> None:
    """Copy 200 photos into one folder per answer."""
    await user.press("L e down down enter enter")
    assert len(user.engine.sorted) == 200


async def save(user: User) -> None:
    """Save the project under a name."""
    await user.press("ctrl+s ctrl+u b enter")
    assert user.app.controller.session.is_saved


async def by_mouse(user: User) -> None:
    """With the mouse alone, choose a class, classify one of its examples, and assign it to a different class."""
    pilot = user.driver.pilot
    await pilot.click("#classes", offset=(3, 2))
    await user.driver.idle()
    await pilot.click("#gallery", offset=(3, 2), times=2)
    await user.driver.until(lambda: user.asked.startswith("/five/owl"))
    await user.driver.idle()
    await pilot.click("#bars", offset=(5, 2), times=2)
    await user.driver.idle()
    user.pressed = 5
    assert user.driver.counts["owl"] == 4


TASKS: list[Callable[[User], Awaitable[None]]] = [
    classes,
    three_folders,
    scattered,
    one_photo,
    correction,
    threshold,
    merge,
    closer,
    misfits,
]
LONG: list[Callable[[User], Awaitable[None]]] = [questions, twelve, sort, save, by_mouse]


def told() -> dict[str, tuple[str, str]]:
    """Return the previous and current counts for each task from the document."""
    rows = re.findall(r"^\| (.+?) \| (\S+) \| (\d+) \|", TABLE.read_text(), re.MULTILINE)
    return {what: (before, now) for what, before, now in rows}


@pytest.mark.parametrize(
    "task", [*TASKS, *(pytest.param(task, marks=pytest.mark.slow) for task in LONG)], ids=lambda task: task.__name__
)
async def test_a_task_takes_the_documented_number_of_keys(
    drive: Drive, fake_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, task: Callable[[User], Awaitable[None]]
) -> None:
    world = {f"/five/{name}": [f"{name}-{number}.jpg" for number in range(5)] for name in CLASSES}
    folders: dict[str, Any] = {"/home": [], "/five": CLASSES, **world, "/asked": ASKED}
    folders |= {"/three": ["a", "b", "c"], "/genera": ["corvus"], "/genera/corvus": []}
    for folder, names in (("/three/a", CLASSES[:2]), ("/three/b", CLASSES[2:4]), ("/three/c", CLASSES[4:])):
        folders |= {folder: names, **{f"{folder}/{name}": world[f"/five/{name}"] for name in names}}
    monkeypatch.setattr(FakeEngine, "FOLDERS", folders)
    surely = FakeEngine._answer

    def answer(engine: FakeEngine, path: str, *, alone: bool) -> dict[str, Any]:
        """For doubtful photos, the rival class is nearly as probable."""
        found = surely(engine, path, alone=alone)
        number = Path(path).name[:-4].rpartition("-")[2]
        if number.isdecimal() and int(number) - 100 in DOUBTED:
            found["scores"][0]["probability"], found["scores"][1]["probability"] = 0.5, 0.4
        return found

    monkeypatch.setattr(FakeEngine, "_answer", answer)
    driver = await drive(place="/home")
    user = User(driver, fake_engine)
    begun_in = {"three_folders": "/three", "scattered": "/genera"}.get(task.__name__, "/home")
    driver.app.workspace.context.browsed = begun_in
    if task not in (classes, three_folders, scattered, questions):
        await user.begin()
    await task(user)
    assert (task.__doc__ or "").strip().rstrip(".") in told()
    assert str(user.pressed) == told()[(task.__doc__ or "").strip().rstrip(".")][1]
