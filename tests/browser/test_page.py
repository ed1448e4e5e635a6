"""The page from `frn export --web` gives the same answers as Python, learns from corrections, and works offline."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from frn.data.synthetic import draw_moth, species
from frn.estimator.loading import load_classifier
from frn.features.extractor import Tta
from frn.images.boxes import box_name, split_box
from frn.inference.classifier import Classifier, Prediction
from frn.inference.enrolled_form import as_project_head
from frn.ridge.parameters import HeadParameters
from tests.commands import frn
from tests.drawings import MOTHS, QUERIES

RUNTIME = Path(os.environ.get("FRN_ORT_WEB", "onnxruntime-web-1.30.0.tgz"))  # archive from `npm pack onnxruntime-web`
PHOTOS = Path(os.environ.get("FRN_PAGE_PHOTOS", QUERIES))
"""Number of photos for which the page is compared with Python."""
MODEL = os.environ.get("FRN_PAGE_MODEL", "conv4")
WAIT = 900

pytestmark = pytest.mark.skipif(
    not RUNTIME.exists(), reason="needs onnxruntime-web: npm pack onnxruntime-web, and FRN_ORT_WEB=its file"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return export(tmp_path)


def export(tmp_path: Path, *options: str, classes: Path = MOTHS) -> Path:
    out = tmp_path / "page"
    (tmp_path / RUNTIME.name).symlink_to(RUNTIME.resolve())
    words = ["export", "--web", out, "--classes", classes, "--model", MODEL, *options]
    assert frn(*words).exit_code == 0
    return out


def wait_for(browser: Any, start: str) -> str:
    """Wait until the page's status starts with this text, and return it."""
    from selenium.webdriver.support.ui import WebDriverWait

    script = "return document.getElementById('status')?.textContent ?? ''"

    def told(driver: Any) -> str | bool:
        status: str = driver.execute_script(script)
        assert not status.startswith(("The page cannot", "Something failed")), status
        return status if start in status else False

    return str(WebDriverWait(browser, WAIT, poll_frequency=0.1).until(told))


def answers(browser: Any) -> dict[str, dict[str, str]]:
    cards = browser.execute_script("return [...document.querySelectorAll('.card')].map(card => ({...card.dataset}))")
    return {card["photo"]: card for card in cards}


def assert_same_answer(card: dict[str, str], expected: Prediction, error: float = 1e-3) -> None:
    assert card["label"] == expected.label
    assert float(card["probability"]) == pytest.approx(expected.probabilities[expected.label], abs=error)


def test_page_classifies_learns_from_corrections_and_remembers_them(
    folder: Path, tmp_path: Path, serve: Callable[[Path], str], show: Callable[..., Any]
) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    photos = sorted(path for path in PHOTOS.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))[:200]
    classifier, _ = load_classifier(MOTHS, MODEL, "cpu")
    head = classifier.head
    browser = show(serve(folder))
    assert "thread" in wait_for(browser, "Ready")
    assert browser.execute_script("return crossOriginIsolated")

    browser.find_element(By.ID, "files").send_keys("\n".join(map(str, photos)))
    wait_for(browser, f"{len(photos)} of {len(photos)} photos classified")
    shown = answers(browser)
    for path, expected in classifier.classify(photos):
        assert isinstance(expected, Prediction)
        assert_same_answer(shown[path.name], expected)
        assert float(shown[path.name]["known"]) == pytest.approx(expected.known, abs=2e-3)
        if abs(expected.known - classifier.rule.threshold) > 2e-3:
            assert shown[path.name]["unknown"] == str(expected.unknown).lower()

    # A correction adds an example to its class.
    wrong, right = photos[0], "tailed footman"
    card = browser.find_element(By.CSS_SELECTOR, f'.card[data-photo="{wrong.name}"]')
    Select(card.find_element(By.CSS_SELECTOR, ".correct select")).select_by_visible_text(right)
    card.find_element(By.CSS_SELECTOR, ".correct button").click()
    wait_for(browser, f"{wrong.name} is now an example of {right}")
    members = {entry.name: [support.path for support in entry.supports] for entry in classifier.state.classes}
    members[right].append(wrong)
    check(browser, classifier, head, members, photos)

    # A class that the visitor adds takes effect at once.
    mine = tmp_path / "mine"
    mine.mkdir()
    own = [Path(shutil.copy(path, mine / f"own-{path.name}")) for path in photos[-3:]]
    browser.find_element(By.ID, "name").send_keys("my <b>moth</b>")
    browser.find_element(By.ID, "examples").send_keys("\n".join(map(str, own)))
    wait_for(browser, "3 photos added to my <b>moth</b>")
    check(browser, classifier, head, members | {"my <b>moth</b>": own}, photos)
    browser.find_element(By.ID, "undo").click()
    wait_until_shots(browser, {name: len(paths) for name, paths in members.items()})
    check(browser, classifier, head, members, photos)
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.get_log("browser") == []


def check(
    browser: Any, classifier: Classifier, head: HeadParameters, members: dict[str, list[Path]], photos: list[Path]
) -> None:
    """The page gives the same answers as Python with the same classes.

    It keeps its head and its allowances, so probabilities differ more.
    """
    classifier.enroll(members)
    state = classifier.state
    classifier.enroll_state(replace(state, head=as_project_head(head, state, classifier.extractor)))
    shown = answers(browser)
    for path, expected in classifier.classify(photos):
        assert isinstance(expected, Prediction)
        assert_same_answer(shown[path.name], expected, 0.15)


def wait_until_shots(browser: Any, wanted: dict[str, int]) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    rows = "[...document.querySelectorAll('#classes li')].map(row => [row.dataset.name, Number(row.dataset.shots)])"
    script = f"return Object.fromEntries({rows})"
    WebDriverWait(browser, WAIT, poll_frequency=0.1).until(lambda driver: driver.execute_script(script) == wanted)


def test_page_opens_offline_with_learned_classes(
    folder: Path, serve: Callable[[Path], str], show: Callable[..., Any]
) -> None:
    from selenium.webdriver.common.by import By

    address = serve(folder)
    browser = show(address, (390, 844), dark=True)
    wait_for(browser, "Ready")
    browser.find_element(By.CSS_SELECTOR, '[aria-label="Remove eyed footman"]').click()
    wanted = {path.name: 5 for path in MOTHS.iterdir() if path.name != "eyed footman"}
    wait_until_shots(browser, wanted)
    shutil.rmtree(folder)  # the server is stopped from here on
    browser.get(address)
    wait_for(browser, "Ready")
    wait_until_shots(browser, wanted)
    query = next(QUERIES.iterdir())
    browser.find_element(By.ID, "files").send_keys(str(query))
    wait_for(browser, "1 of 1 photos classified")
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("options", [(), ("--examples",)])
def test_page_names_the_parts_that_explain_names(
    options: tuple[str, ...], tmp_path: Path, serve: Callable[[Path], str], show: Callable[..., Any]
) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    query = next(QUERIES.iterdir())
    browser = show(serve(export(tmp_path, *options)))
    wait_for(browser, "Ready")
    browser.find_element(By.ID, "files").send_keys(str(query))
    wait_for(browser, "1 of 1 photos classified")
    svg, panel = browser.find_element(By.CSS_SELECTOR, ".why"), browser.find_element(By.ID, "why")
    browser.execute_script("arguments[0].focus()", svg)
    WebDriverWait(browser, WAIT).until(lambda _: panel.is_displayed())
    words = ["explain", MOTHS, query, "--model", MODEL, "--json", "--out", tmp_path / "x.png"]
    drawn = json.loads(frn(*words).stdout)
    assert svg.get_attribute("aria-label") == drawn["why"]
    for number, part in enumerate(drawn["parts"], 1):
        assert f"part {number} of {len(drawn['parts'])}" in panel.text
        shares = [100 * source["share"] for sources in part["from"].values() for source in sources]
        shown = [line for line in panel.text.splitlines() if line[0].isdigit()]
        assert [int(line.split("%")[0]) for line in shown] == pytest.approx(shares, abs=0.6)
        names = [Path(source["image"]).name for sources in part["from"].values() for source in sources]
        assert [line.partition(" ")[2] for line in shown] == [""] * len(names) if options else names
        browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not panel.is_displayed()
    assert browser.get_log("browser") == []


@pytest.mark.parametrize(("tta", "find", "side"), [("hflip", "one", 170), ("none", "one", 600), ("none", "all", 600)])
def test_page_finds_the_subjects_that_python_finds(
    tta: Tta, find: str, side: int, tmp_path: Path, serve: Callable[[Path], str], show: Callable[..., Any]
) -> None:
    """Photos of more than 1,024 pixels are scaled down first."""
    from selenium.webdriver.common.by import By

    draw, rows, scenes = np.random.default_rng(4), ["path,label,x,y,width,height"], []
    for number in range(12):
        noise = Image.fromarray(draw.integers(0, 256, (10, 15, 3), dtype=np.uint8))
        scene = noise.resize((7 * side // 2, 5 * side // 2), Image.Resampling.BICUBIC)
        left, top = int(draw.integers(2 * side // 3)), int(draw.integers(3 * side // 2))
        scene.paste(draw_moth(species(number % 3), draw, side), (left, top))
        if number > 5:
            scene.paste(draw_moth(species((number + 1) % 3), draw, side), (left + 7 * side // 4, top))
        scene.save(path := tmp_path / f"{number}.png")
        scenes.append(path)
        rows.append(f"{path},moth {number % 3},{left},{top},{side},{side}")
    (table := tmp_path / "classes.csv").write_text("\n".join(rows[:7]))
    project = tmp_path / "moths.frn.json"
    words = ["enroll", table, "--out", project, "--find", find, "--model", MODEL, "--tta", tta]
    assert frn(*words).exit_code == 0
    browser = show(serve(export(tmp_path, classes=project)))
    wait_for(browser, "Ready")
    browser.find_element(By.ID, "files").send_keys("\n".join(map(str, scenes[6:])))
    said = wait_for(browser, "6 of 6 photos classified")
    shown, framed = answers(browser), 0
    classifier, _ = load_classifier(project, MODEL, "cpu", tta)
    counts = Counter[str]()
    names = [subject for path in scenes[6:] for subject in (classifier.subjects(path) if find == "all" else [path])]
    for path, expected in classifier.classify(names):
        assert isinstance(expected, Prediction)
        framed += expected.box is not None
        counts[expected.label] += not expected.unknown
        name = split_box(path)[0].name
        assert_same_answer(shown[box_name(name, expected.box) if expected.box else name], expected, 2e-3)
    assert len(shown) == len(names)
    assert all(f"{count} {label}" in said for label, count in counts.items()) == (find == "all")
    assert len(browser.find_elements(By.CSS_SELECTOR, ".card .frame")) == framed > 3
    # An example that is added to a class with boxes is searched as well.
    add = browser.find_element(By.CSS_SELECTOR, '[aria-label="Add photos to moth 0"]')
    add.send_keys(str(scenes[6]))
    wait_for(browser, "1 photos added to moth 0")
    assert shown.keys() == answers(browser).keys()
    assert browser.get_log("browser") == []
