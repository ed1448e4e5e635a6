"""The complete app with its real engine, driven by key presses."""

import json
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from frn_tui.app import FIRST_SAMPLE, FrnApp
from frn_tui.dialogs.dialogs import AskText
from frn_tui.dialogs.picker import Picker
from frn_tui.panes.review import Review

from frn.models.zoo import DEFAULT_MODEL, assets_folder
from tests.commands import frn
from tests.drawings import DRAWINGS, MOTHS, PHOTO, QUERIES
from tests.processes import lives
from tests.tui.conftest import Driver

Lines = Callable[[Any], list[str]]

pytestmark = pytest.mark.usefixtures("private_state")


@pytest.fixture
def moths_folder(tmp_path: Path) -> Path:
    """Three classes of three shipped samples each, in a path with blanks and an emoji."""
    for home in sorted(MOTHS.iterdir())[:3]:
        (tmp_path / "my moths 🦋" / home.name).mkdir(parents=True)
        for path in sorted(home.iterdir())[:3]:
            shutil.copy(path, tmp_path / "my moths 🦋" / home.name)
    return tmp_path / "my moths 🦋"


class DriveReal(AsyncExitStack):
    """Opens the app with its engine, which must end with the app; an app that was opened before is closed first."""

    def __init__(self, driver_class: type[Driver]) -> None:
        super().__init__()
        self.driver_class = driver_class

    async def __call__(self, place: Path | str | None = None, model: str | None = "conv4") -> Driver:
        await self.aclose()
        app = FrnApp(None if place is None else str(place), images="half", model=model)
        self.callback(lambda: _assert_ended(app.engine.pid))
        driver = self.driver_class(app, await self.enter_async_context(app.run_test(size=(120, 30))))
        await driver.until(lambda: app.controller.model is not None)
        if place is not None:  # otherwise a dialog may be waiting
            await driver.idle()
        return driver


@pytest.fixture
def drive_real(driver_class: type[Driver]) -> DriveReal:
    return DriveReal(driver_class)


def _assert_ended(pid: int | None) -> None:
    assert pid is None or not lives(pid), "the engine outlived the app"


async def test_app_opens_the_samples_and_shows_an_answer(lines: Lines, drive_real: DriveReal) -> None:
    driver = await drive_real(model=None)
    app, query = driver.app, driver.app.controller.query
    count = len(list((assets_folder() / "samples" / "queries").iterdir()))
    await driver.until(lambda: len(query.answers) == count and "maps" in query.answers[0], seconds=60)
    await driver.idle()
    assert len(driver.counts) == 8
    assert app.controller.session.is_saved  # samples need not be saved
    screen = "\n".join(lines(app))
    name = Path(FIRST_SAMPLE).stem[:-2]
    for words in (
        name,
        "known, unknown below",
        f"1/{count}",
        "▀▀▀▀",
        DEFAULT_MODEL,
        "8 classes · 40 photos",
        "? fits none",
    ):
        assert words in screen
    await driver.keys("full_stop")
    assert f"2/{count}" in "\n".join(lines(app))


async def test_folder_is_enrolled_corrected_saved_and_exported(
    moths_folder: Path, tmp_path: Path, lines: Lines, drive_real: DriveReal
) -> None:
    driver = await drive_real(moths_folder)
    app, controller = driver.app, driver.app.controller
    assert list(driver.counts.values()) == [3, 3, 3]
    await driver.keys("p")
    assert isinstance(app.screen, Picker)
    await driver.type(str(PHOTO))
    assert controller.query.answer is not None
    assert controller.query.answer["path"].endswith("eyed footman 6.jpg")
    app.workspace.query_pane.picture.preview.focus()
    await driver.keys("y")
    assert sum(driver.counts.values()) == 10
    await driver.keys("y")  # already exists
    assert sum(driver.counts.values()) == 10
    await driver.keys("u")
    assert sum(driver.counts.values()) == 9
    await driver.keys("2")
    assert list(driver.counts.values()) == [3, 4, 3]
    await driver.keys("ctrl+s")
    assert isinstance(app.screen, AskText)
    await driver.type(str(tmp_path / "m"))
    assert (tmp_path / "m.frn.json").is_file()
    assert controller.session.is_saved
    await driver.keys("e")
    await driver.type("from photo")
    await driver.type(str(tmp_path / "m.onnx"))
    import numpy as np
    import onnxruntime
    from PIL import Image

    await driver.keys("p")
    await driver.type(str(QUERIES / "banded footman 7.jpg"))
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    pixels = np.asarray(Image.open(QUERIES / "banded footman 7.jpg").convert("RGB"))
    label, errors = session.run(["label", "class_error"], {"image": pixels})
    said = {app.workspace.controller.names[score["id"]]: score["error"] for score in controller.query.answer["scores"]}
    assert str(label) == app.workspace.controller.names[controller.query.answer["scores"][0]["id"]]
    np.testing.assert_allclose(errors, [said[name] for name in driver.counts], rtol=1e-3)

    driver = await drive_real(tmp_path / "m.frn.json", model=None)
    assert list(driver.counts.values()) == [3, 4, 3]
    assert driver.app.controller.session.is_saved


async def test_results_threshold_filter_and_help_can_be_opened(
    moths_folder: Path, tmp_path: Path, lines: Lines, drive_real: DriveReal
) -> None:
    driver = await drive_real(moths_folder)
    app, controller = driver.app, driver.app.controller
    await driver.keys("p")
    await driver.type(str(QUERIES))
    assert len(controller.query.answers) == 18
    for _ in range(3):
        await driver.keys("plus")
    before = controller.query.rejected
    controller.session.set_threshold(0.99)
    await controller.sync()
    assert controller.query.rejected > before
    assert "unknown" in "\n".join(lines(app))
    await driver.keys("0")
    await driver.keys("L")
    assert isinstance(app.screen, Review)
    await driver.keys("s", "s", "g")
    await driver.keys("e", "enter")
    await driver.type(str(tmp_path / "results.csv"))
    rows = (tmp_path / "results.csv").read_text().splitlines()
    assert len(rows) == 19
    assert rows[0].startswith("image,label,final,probability")
    await driver.keys("e", "down", "enter")
    await driver.type(str(tmp_path / "results.jsonl"))
    written = (tmp_path / "results.jsonl").read_text().splitlines()
    first = json.loads(written[0])
    assert first["final"] == ("unknown" if first["unknown"] else first["label"])
    answers = {answer["image"]: answer for answer in map(json.loads, written)}
    printed = frn("classify", moths_folder, QUERIES, "--json", "--model", "conv4").stdout.splitlines()
    for line in map(json.loads, printed):
        assert answers[line["image"]].pop("final")
        line["known"] = pytest.approx(line["known"], abs=1e-4)  # from errors in float32
        assert [*answers[line["image"]].items()] == [*line.items()]
    await driver.keys("escape")
    (answer,) = (answer for answer in controller.query.answers if answer["path"] == first["image"])
    assert first["known"] == pytest.approx(answer["known"], abs=1e-6)
    assert first["unknown"] == (answer["known"] < controller.threshold)
    await driver.keys("question_mark")
    assert "add photos or a folder" in "\n".join(lines(app))


async def test_pasted_paths_are_added_or_classified_and_broken_files_are_listed(
    moths_folder: Path, lines: Lines, drive_real: DriveReal
) -> None:
    bad = moths_folder / "bad [red] \x1b[31m.png"
    bad.write_text("no picture")
    driver = await drive_real(moths_folder)
    from textual import events

    app = driver.app
    app.workspace.query_pane.picture.preview.focus()
    await driver.pilot.pause()
    app.workspace.on_paste(events.Paste(f"'{DRAWINGS / 'queries' / 'eyed footman 7.jpg'}'"))
    await driver.idle()
    assert app.controller.query.answer is not None
    assert app.controller.query.answer["path"].endswith("eyed footman 7.jpg")
    app.workspace.classes_pane.list.focus()
    await driver.pilot.pause()
    app.workspace.on_paste(events.Paste(f"{DRAWINGS / 'queries' / 'banded footman 6.jpg'}\n{bad}"))
    await driver.idle()
    assert next(iter(driver.counts.values())) == 4
    await driver.keys("b")
    screen = "\n".join(lines(app))
    assert "is not an image in a known format" in screen
    assert "\x1b" not in screen
