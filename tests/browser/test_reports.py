"""Reports in a browser cause no console errors, fit the width of a phone, and work with the keyboard."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import frn
from tests.drawings import MOTHS, QUERIES

PHONE = (390, 844)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "photos.html"
    words = ["classify", MOTHS, QUERIES, "--report", out, "--model", "conv4"]
    frn(*words)
    return out


@pytest.fixture(scope="module")
def score(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    for query in QUERIES.iterdir():
        home = folder / "labelled" / query.stem[:-2].replace("tailed", "strange")
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(query, home)
    words = ["score", MOTHS, folder / "labelled", "--report", folder / "score.html", "--model", "conv4"]
    frn(*words)
    return folder / "score.html"


@pytest.mark.parametrize("report", ["photos", "score"])
def test_report_fits_a_phone_in_light_and_dark(
    report: str, show: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    page = request.getfixturevalue(report).as_uri()
    for dark in (False, True):
        browser = show(page, PHONE, dark=dark)
        assert browser.execute_script("return document.documentElement.scrollWidth") == PHONE[0]
        assert browser.get_log("browser") == []
        red = int(browser.execute_script("return getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]"))
        assert (red < 128) == dark
    sizes = browser.execute_script("return [...document.images].map(i => i.complete ? i.naturalWidth : 1)")
    assert min(sizes, default=1) > 0
    assert len(sizes) >= (18 if report != "score" else 0)


def test_photos_are_filtered_and_sorted_with_the_keyboard(photos: Path, show: Callable[..., Any]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    browser = show(photos.as_uri())
    visible = "return [...document.querySelectorAll('.card')].filter(c => !c.hidden).map(c => "
    assert len(browser.execute_script(f"{visible} c.dataset.key)")) == 18
    for _ in range(10):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        if browser.switch_to.active_element.get_attribute("id") == "filter":
            break
    browser.switch_to.active_element.send_keys("eyed")
    left = browser.execute_script(f"{visible} c.dataset.key)")
    assert set(left) == {"=eyed footman"}
    assert browser.find_element(By.ID, "shown").text == f"{len(left)} of 18 photos"
    browser.switch_to.active_element.send_keys(Keys.TAB)
    browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    sure = browser.execute_script(f"{visible} Number(c.dataset.sure))")
    assert sure == sorted(sure)
    assert not browser.find_element(By.CSS_SELECTOR, ".card:not([hidden]) .map").is_displayed()
    browser.switch_to.active_element.send_keys(Keys.TAB)
    browser.switch_to.active_element.send_keys(Keys.SPACE)
    assert browser.find_element(By.CSS_SELECTOR, ".card:not([hidden]) .map").is_displayed()
    assert browser.get_log("browser") == []


def test_parts_that_decided_appear_with_pointer_and_keyboard(photos: Path, show: Callable[..., Any]) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    browser = show(photos.as_uri())
    panel, svg = browser.find_element(By.ID, "why"), browser.find_elements(By.CSS_SELECTOR, ".why")[2]
    assert not panel.is_displayed()
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", svg)
    ActionChains(browser).move_to_element(svg.find_elements(By.TAG_NAME, "rect")[1]).perform()
    assert svg.get_attribute("aria-label") in panel.text
    assert "part 2 of" in panel.text
    browser.execute_script("arguments[0].focus()", svg)
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert "part 3 of" in panel.text
    drawn = """const done = arguments[0]; setTimeout(() => done([...document.querySelectorAll('#why canvas')].map(
        (c) => new Set(c.getContext('2d').getImageData(0, 0, 96, 96).data).size)), 1000)"""
    assert min(browser.execute_async_script(drawn)) > 5  # no empty tile
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not panel.is_displayed()
    assert browser.get_log("browser") == []
