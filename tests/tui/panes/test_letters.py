"""Letters on the least certain answers: one key gives a photo to its next likely class, one confirms the page."""

import asyncio
from collections.abc import Callable
from typing import Any

from frn_tui.panes.review import Review
from frn_tui.widgets.gallery import Gallery

from tests.tui.conftest import Driver
from tests.tui.fake_engine import FakeEngine
from tests.tui.panes.test_review import names, opened

Lines = Callable[[Any], list[str]]


def labels(review: Review) -> dict[str, str]:
    return {path.rpartition("/")[2]: item.label for path, item in review.items.items() if item.label}


def tiles(review: Review) -> list[str]:
    return [f"{item.mark}{item.name}" for item in review.gallery.items]


async def test_a_letter_gives_a_photo_to_its_next_likely_class(driver: Driver, lines: Lines) -> None:
    review = await opened(driver)
    await driver.keys("n")
    assert tiles(review)[0] == "a?jay→owl"  # the swan is unknown, so it is the least certain; jay is nearest
    assert "page 1 of 1" in lines(driver.app)[0]
    for key, label in (("a", "owl"), ("a", "wren"), ("a", "jay"), ("x", "none of these"), ("a", "jay"), ("3", "wren")):
        await driver.keys(key)
        assert labels(review) == {"swan-1.jpg": label}, key
    assert tiles(review)[0].startswith("a◆wren")
    await driver.keys(*["u"] * 6)
    assert labels(review) == {}
    await driver.keys("escape", "a")
    assert "only in the workspace" in driver.said  # without letters, `a` adds photos


async def test_one_key_confirms_the_other_photos_of_a_page(driver: Driver) -> None:
    review = await opened(driver)
    await driver.keys("n", "a", "Y")
    assert labels(review) == {
        "swan-1.jpg": "owl",
        "jay-10.jpg": "jay",
        "owl-10.jpg": "owl",
        "owl-11.jpg": "owl",
        "wren-10.jpg": "wren",
    }
    assert "no more answers" in driver.said
    await driver.keys("u")
    assert labels(review) == {"swan-1.jpg": "owl"}


async def test_what_a_letter_does_and_the_places_stay_until_the_page_is_turned(driver: Driver) -> None:
    review = await opened(driver)
    review.gallery.tile_width = 50  # so that not all photos fit on one page
    await driver.keys("n")
    size, before = len(review.page), names(review)
    assert size < 5
    shown, order = tiles(review)[:size], review.page
    for answer in review.controller.query.answers:  # as if a label had turned all answers round
        answer.get("scores", []).reverse()
    review.show()
    assert (tiles(review)[:size], names(review), review.page) == (shown, before, order)
    await driver.keys("pagedown")
    assert names(review)[:size] == before[:size]
    assert not order.classes.keys() & review.page.classes.keys()
    await driver.keys("pageup")
    assert list(review.page.classes) == list(order.classes)


async def test_a_page_turns_once_all_answers_have_followed_the_labels(driver: Driver, fake_engine: FakeEngine) -> None:
    review = await opened(driver)
    review.gallery.tile_width = 50  # so that not all photos fit on one page
    await driver.keys("n")
    fake_engine.held["query"] = asyncio.Event()
    page = list(review.page.classes)
    await driver.app.run_action("screen.do('right-all')")
    await driver.app.run_action("screen.do('right-all')")  # a second key confirms nothing that is not on the screen
    await driver.pilot.pause()
    assert list(review.page.classes) == page
    fake_engine.held.pop("query").set()
    await driver.idle()
    assert labels(review).keys() == {path.rpartition("/")[2] for path in page}
    assert names(review)[len(page)].endswith(next(iter(review.page.classes)).rpartition("/")[2])


async def test_a_click_does_what_the_letter_does(driver: Driver) -> None:
    review = await opened(driver)
    await driver.keys("n")
    item = review.gallery.items[0]
    review.gallery.post_message(Gallery.Clicked(item))
    await driver.idle()
    assert labels(review) == {"swan-1.jpg": "owl"}
