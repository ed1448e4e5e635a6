"""Reviewing many answers: order, filters, labels, threshold, sorting, and classifying more photos."""

import csv
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from frn_tui.client.protocol import QueryAnswer
from frn_tui.dialogs.dialogs import AskText, Choose
from frn_tui.dialogs.picker import Picker
from frn_tui.document.answer_files import export_text
from frn_tui.document.review_state import KINDS, Arrangement, Reviewed, effort, reviewed, summary
from frn_tui.panes.review import Review
from frn_tui.widgets.bars import LABEL, Histogram, columns

from frn.projects.session import build_state
from tests.tui.conftest import Drive, Driver
from tests.tui.fake_engine import FakeEngine

Lines = Callable[[Any], list[str]]
FILES = ["bad-2.jpg", "jay-10.jpg", "owl-10.jpg", "owl-11.jpg", "swan-1.jpg", "wren-10.jpg"]


async def opened(driver: Driver) -> Review:
    """The review of a folder of answers."""
    driver.app.workspace.ask(["/queries"])
    await driver.idle()
    await driver.keys("L")
    assert isinstance(driver.app.screen, Review)
    return driver.app.screen


def shown(driver: Driver) -> str:
    answer = driver.app.controller.query.answer
    assert answer is not None
    return answer["path"]


def names(review: Review) -> list[str]:
    return [path.rpartition("/")[2] for path in review.controller.arrangement.paths]


def item(path: str, verdict: str, sure: float, *, label: str | None = None) -> Reviewed:
    scores = [{"id": 1, "probability": sure, "error": 1.0, "explained": sure / 2}]
    scores.append({"id": 2, "probability": 1 - sure, "error": 1.0, "explained": 0.1})
    answer: QueryAnswer = {"path": path, "scores": scores, "known": sure / 2, "unknown": verdict == "unknown"}  # type: ignore[typeddict-item]
    return Reviewed(answer, verdict, label, False, None if label in (None, "none of these") else 1)


def test_chosen_order_is_kept_while_answers_change() -> None:
    items = [item("/a", "jay", 0.9), item("/b", "owl", 0.55), item("/c", "unknown", 0.7)]
    arrangement = Arrangement()
    arrangement.follow(items)
    assert arrangement.paths == ["/a", "/b", "/c"]
    arrangement.choose(items, order="least certain first")
    assert arrangement.paths == ["/b", "/c", "/a"]
    surer = [items[0], item("/b", "owl", 0.99), items[2]]
    arrangement.follow(surer)
    assert arrangement.paths == ["/b", "/c", "/a"]
    more = [*surer, item("/d", "owl", 0.6)]
    arrangement.follow(more)  # it comes last, because a key may act on any of the others
    assert arrangement.paths == ["/b", "/c", "/a", "/d"]
    arrangement.sort(more)
    assert arrangement.paths == ["/d", "/c", "/a", "/b"]
    arrangement.choose(surer, kind="known", said="owl")
    assert arrangement.paths == ["/b"]
    arrangement.choose(surer, kind="all", said="", wanted="JAY")
    assert arrangement.paths == ["/a"]


def test_labelled_photos_come_last_those_that_the_other_photos_contradict_first() -> None:
    items = [item("/a", "jay", 0.9, label="jay"), item("/b", "owl", 0.2, label="jay"), item("/c", "owl", 0.95)]
    arrangement = Arrangement()
    arrangement.choose(items, order="least certain first")
    assert arrangement.paths == ["/c", "/b", "/a"]
    assert round(items[1].lead, 2) == -0.6


def test_class_may_have_the_same_name_as_a_filter() -> None:
    items = [item("/a", "unknown", 0.9), item("/b", "unreadable", 0.9)]
    items[0].answer["unknown"] = False
    chosen = {kind: [one.path for one in items if is_one(one)] for kind, is_one in KINDS.items()}
    assert chosen["unknown"] == chosen["unreadable"] == []
    assert chosen["known"] == chosen["not labelled"] == ["/a", "/b"]
    assert summary(items).endswith("0 unknown")


async def test_classifying_again_adds_new_answers_and_updates_old_ones_in_place(driver: Driver) -> None:
    query, workspace = driver.app.controller.query, driver.app.workspace
    for paths in (["/queries/jay-10.jpg"], ["/queries/owl-10.jpg"], ["/queries"], ["/queries/jay-10.jpg"]):
        workspace.ask(paths)
        await driver.idle()
    order = ["jay-10.jpg", "owl-10.jpg", "bad-2.jpg", "owl-11.jpg", "swan-1.jpg", "wren-10.jpg"]
    assert [answer["path"].rpartition("/")[2] for answer in query.answers] == order
    assert query.at == 0


def test_the_title_counts_the_keys_until_most_answers_are_right() -> None:
    items = [item(f"/{place}", "jay", sure) for place, sure in enumerate((0.99, 0.5, 0.9, 0.6))]
    # A stated doubt counts 1.2 times: of the three that must be looked at, 1.2 are wrong
    assert [effort(items, page) for page in (1, 2, 3, 4)] == ["about 4 keys to 97%", "about 3 keys to 97%"] + [
        "about 2 keys to 97%"
    ] * 2
    labelled = [item("/9", "jay", 0.5, label="jay"), item("/8", "unknown", 0.3)]
    assert effort(labelled, 8) == "about 100% right"
    assert effort([], 8) == ""


async def test_every_key_of_the_review_acts_on_the_photo_under_the_cursor(driver: Driver, lines: Lines) -> None:
    review = await opened(driver)
    await driver.keys("slash", *"jay", "enter")
    assert len(names(review)) < len(FILES)
    await driver.keys("escape")  # shows all answers before it closes the review
    assert names(review) == FILES
    assert driver.app.screen is review
    await driver.keys("home", "l", "Y")  # the jay; the swan is unknown, the other photos are as probable
    assert driver.counts == {"jay": 7, "owl": 6, "wren": 6}
    assert driver.said == "4 photos added to 3 classes: all from 0.90 up   u: undo"
    await driver.keys("u")
    assert driver.counts == {"jay": 6, "owl": 4, "wren": 5}
    await driver.keys("home", "l", "l", "r")  # the owl
    await driver.type("barn owl")
    assert [entry.name for entry in driver.app.controller.session.state.classes] == ["jay", "barn owl", "wren"]
    assert driver.said == "renamed owl to barn owl   u: undo"
    await driver.keys("u", "home", "l", "d")
    assert names(review) == [name for name in FILES if name != "jay-10.jpg"]
    assert "removed jay-10.jpg from the answers   u: undo" in lines(driver.app)[-2]
    await driver.keys("2", "u", "u")
    assert names(review) == FILES
    assert "undone: removed jay-10.jpg from the answers" in "\n".join(lines(driver.app))
    await driver.keys("p")
    assert len([screen for screen in driver.app.screen_stack if isinstance(screen, Picker)]) == 1
    await driver.type("/photos/owl")
    assert len(review.items) == 10
    await driver.keys("home", "l")
    text = "\n".join(lines(driver.app))
    assert "jay-10.jpg: jay 0.90, 45% known · rival owl 0.10 · mostly from jay/jay-0.jpg" in text
    await driver.keys("enter", "enter")
    assert "rival owl 0.10   from jay-0.jpg" in "\n".join(lines(driver.app))
    await driver.keys("L", "d", "escape")
    assert driver.app.screen is not review
    assert "/9 " in "\n".join(lines(driver.app))


async def test_keys_follow_the_review_order_even_after_the_review_is_closed(driver: Driver) -> None:
    review = await opened(driver)
    assert names(review) == FILES
    await driver.keys("s", "s")  # least known first
    assert names(review)[:2] == ["bad-2.jpg", "swan-1.jpg"]
    await driver.keys("l", "enter")
    assert shown(driver) == "/queries/swan-1.jpg"
    await driver.keys("full_stop")
    assert shown(driver) == "/queries/jay-10.jpg"
    await driver.keys("comma", "comma")
    assert shown(driver) == "/queries/bad-2.jpg"
    await driver.keys("escape", "escape", "L")
    assert names(driver.app.screen)[:2] == ["bad-2.jpg", "swan-1.jpg"]  # type: ignore[arg-type]


async def test_keys_of_the_workspace_say_where_they_work(driver: Driver) -> None:
    await driver.keys("D")
    assert driver.said == "show or hide the histogram of how well photos are known: only in the review   L: go there"
    review = await opened(driver)
    for key, meaning in (("tab", "next pane"), ("B", "draw or mend a box")):
        await driver.keys(key)
        assert driver.said.startswith(meaning)
        assert driver.said.endswith(": only in the workspace   esc: go there")
    await driver.keys("L")
    assert driver.app.screen is not review


async def test_sorting_again_moves_and_undoes_only_photos_in_the_wrong_folder(
    driver: Driver, fake_engine: FakeEngine
) -> None:
    await opened(driver)

    async def move() -> None:
        await driver.keys("e")
        await driver.type("move into")
        await driver.until(lambda: isinstance(driver.app.screen, AskText))
        await driver.type("/out")
        await driver.keys("enter")

    await move()
    steps = driver.app.controller.session.state
    await move()
    assert driver.app.controller.session.state.moves is steps.moves  # no further step
    await driver.keys("u")
    assert driver.said.startswith("undone: moved 5 photos")
    assert len(fake_engine.moved) == 5


async def test_many_photos_are_labelled_and_undone_in_one_step(driver: Driver, lines: Lines) -> None:
    review = await opened(driver)
    await driver.keys("l", "space", "space", "space", "1")  # jay-10, owl-10, owl-11
    assert driver.counts == {"jay": 9, "owl": 4, "wren": 5}
    assert review.gallery.selection == []
    assert "3 labelled" in "\n".join(lines(driver.app))
    await driver.keys("u")
    assert driver.counts == {"jay": 6, "owl": 4, "wren": 5}
    await driver.keys("ctrl+a", "y")
    assert driver.counts == {"jay": 8, "owl": 6, "wren": 6}  # the swan looks like a jay; the broken photo is omitted
    await driver.keys("u", "home", "l", "m")
    await driver.type("wren")
    assert driver.counts["wren"] == 6
    assert review.gallery.cursor == 2  # the next photo is shown
    await driver.keys("h", "2")
    assert driver.counts == {"jay": 6, "owl": 5, "wren": 5}  # the photo is in only one class


async def test_filter_and_search_limit_the_visible_photos(driver: Driver, lines: Lines) -> None:
    review = await opened(driver)
    await driver.keys("f")
    await driver.type("unknown")
    assert names(review) == ["swan-1.jpg"]
    await driver.keys("f")
    await driver.type("all")
    await driver.keys("f")
    await driver.type("answer owl")
    assert names(review) == ["owl-10.jpg", "owl-11.jpg"]
    await driver.keys("f", "enter", "slash")
    await driver.type("10")
    assert names(review) == ["jay-10.jpg", "owl-10.jpg", "wren-10.jpg"]
    await driver.keys("d")
    assert names(review) == ["owl-10.jpg", "wren-10.jpg"]
    assert len(review.items) == 5
    await driver.keys("slash")
    await driver.type("eagle")
    told = "no answers match: original order · only eagle"
    assert told in lines(driver.app)[1]
    await driver.keys("escape", "escape", "slash")
    await driver.type("eagle")
    await driver.keys("full_stop")
    assert told in driver.said


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_threshold_is_set_by_key_number_and_mouse(drive: Drive, lines: Lines, size: tuple[int, int]) -> None:
    driver = await drive(size=size)
    await opened(driver)
    if not driver.app.screen.query_one(Histogram).display:
        await driver.keys("D")
    assert "unknown below 40.0%: 1 of 5 photos, 0 of 15 examples" in "\n".join(lines(driver.app))
    await driver.pilot.press(*["plus"] * 6)
    await driver.idle()
    assert "unknown below 46.0%: 5 of 5 photos" in "\n".join(lines(driver.app))
    await driver.keys("percent_sign")
    await driver.type("36.5")
    assert driver.app.controller.threshold == 0.365
    await driver.keys("percent_sign")
    await driver.type("")
    assert driver.app.controller.session.state.threshold is None
    await driver.keys("percent_sign")
    await driver.type("many")
    assert driver.app.controller.threshold == 0.4
    histogram = driver.app.screen.query_one(Histogram)
    await driver.pilot.click(histogram, offset=(LABEL, 1))
    await driver.idle()
    assert driver.app.controller.threshold == pytest.approx(0.35, abs=0.01)
    assert driver.app.controller.query.rejected == 0


async def test_photos_are_copied_into_folders_unless_a_move_is_requested(
    driver: Driver, fake_engine: FakeEngine
) -> None:
    await opened(driver)
    await driver.keys("l", "2")  # label the jay as an owl
    for option, moved in (("copy into", False), ("move into", True)):
        fake_engine.sorted.clear()
        await driver.keys("e")
        await driver.type(option)
        await driver.until(lambda: isinstance(driver.app.screen, AskText))
        await driver.type("/out")
        if moved:
            assert fake_engine.sorted == []
            assert isinstance(asked := driver.app.screen, Choose)
            assert "into 3 folders of /out? 1 stay. 2 names taken: numbered." in asked.dialog_title
            await driver.keys("enter")
        assert fake_engine.sorted[0] == ("/queries/jay-10.jpg", "/out/owl", moved)
        assert fake_engine.sorted[3] == ("/queries/swan-1.jpg", "/out/unknown", moved)
    assert driver.app.controller.query.answers[1]["path"] == "/out/owl/jay-10.jpg"
    owls = driver.app.controller.session.state.named("owl")
    assert owls is not None
    assert str(owls.supports[-1].path) == "/out/owl/jay-10.jpg"


async def test_class_folders_do_not_depend_on_the_sorted_photos(driver: Driver, fake_engine: FakeEngine) -> None:
    """Of the classes "Jay" and "jay", the first gets the folder Jay, even if the other's photos come first or alone."""
    await opened(driver)
    await driver.keys("slash", *"owl-11", "enter", "e", "down", "down", "enter", "enter")
    assert [path for path, *_ in fake_engine.sorted] == ["/queries/owl-11.jpg"]
    assert fake_engine.sorted_beside == tuple(driver.counts)


@pytest.mark.parametrize(("name", "told"), [("wren", "unknown"), ("Unknown", "none of the classes")])
def test_unknown_photos_are_not_sorted_into_a_class_named_unknown(name: str, told: str) -> None:
    state, _ = build_state([(name, ())])
    scores = [{"id": 1, "probability": 1.0, "error": 1.0, "explained": 0.5}]
    answers = [{"path": f"/q/{unknown}.jpg", "scores": scores, "unknown": unknown} for unknown in (True, False)]
    query: Any = SimpleNamespace(answers=answers, seen=set())
    items = reviewed(query, state)
    assert [item.said for item in items] == [told, name]
    rows = list(csv.DictReader(export_text(".csv", items, state).splitlines()))
    assert [(row["label"], row["final"]) for row in rows] == [(name, told), (name, name)]


async def test_undo_moves_photos_back_before_labels(driver: Driver, fake_engine: FakeEngine) -> None:
    controller = driver.app.controller

    def jay() -> tuple[str, str]:
        owls = controller.session.state.named("owl")
        assert owls is not None
        return str(owls.supports[-1].path), controller.query.answers[1]["path"]

    await opened(driver)
    await driver.keys("l", "2", "e")  # label the jay as an owl
    await driver.type("move into")
    await driver.until(lambda: isinstance(driver.app.screen, AskText))
    await driver.type("/out")
    await driver.keys("enter")
    assert jay() == ("/out/owl/jay-10.jpg", "/out/owl/jay-10.jpg")
    await driver.keys("u")
    assert jay() == ("/queries/jay-10.jpg", "/queries/jay-10.jpg")
    assert fake_engine.moved[-1] == {"/out/owl/jay-10.jpg": "/queries/jay-10.jpg"}
    assert driver.said == "undone: moved 5 photos   ctrl+r: redo"
    await driver.keys("ctrl+r")
    assert jay() == ("/out/owl/jay-10.jpg", "/out/owl/jay-10.jpg")
    assert fake_engine.moved[-1] == {"/queries/wren-10.jpg": "/out/wren/wren-10.jpg"}
    await driver.keys("u", "u")
    assert "/queries/jay-10.jpg" not in jay()[0]
    assert len(fake_engine.moved) == 15


async def test_message_says_that_nothing_is_written_without_an_output(driver: Driver, fake_engine: FakeEngine) -> None:
    app = driver.app
    for review, words in ((True, "copied"), (True, "CSV"), (False, ""), (False, "bundle")):
        if review:
            await opened(driver)
        await driver.keys("e" if words else "S")
        if words:
            await driver.type(words)
        assert isinstance(app.screen, AskText)
        app.screen.query_one("Input").value = "" if words else " "  # type: ignore[attr-defined]
        await driver.keys("enter")
        assert driver.notes == ["no name given; nothing was written"]
        app.clear_notifications()
        if review:
            await driver.keys("escape")
    assert not fake_engine.sorted
    assert not fake_engine.written


async def test_results_replace_a_file_not_written_by_frn_only_on_request(
    driver: Driver, fake_engine: FakeEngine
) -> None:
    await opened(driver)
    await driver.keys("l", "3")
    fake_engine.written["/out.csv"] = "something else"
    await driver.keys("e", "enter")
    driver.app.screen.query_one("Input").value = "/out.csv"  # type: ignore[attr-defined]
    await driver.pilot.press("enter")
    await driver.until(lambda: "already exists" in getattr(driver.app.screen, "dialog_title", ""))
    assert fake_engine.written["/out.csv"] == "something else"
    await driver.keys("enter")
    rows = [row.split(",") for row in fake_engine.written["/out.csv"].splitlines()]
    row = dict(zip(rows[0], rows[2], strict=True))
    assert (row["label"], row["final"], row["example_of"], row["error"]) == ("jay", "wren", "wren", "")
    assert rows[1][rows[0].index("error")] == "/queries/bad-2.jpg: is damaged"
    assert [row[0] for row in rows[1:]] == [f"/queries/{name}" for name in FILES]


async def test_next_photo_is_shown_after_a_label(driver: Driver, lines: Lines) -> None:
    driver.app.workspace.ask(["/queries"])
    await driver.idle()
    await driver.keys("full_stop")
    for key, name in (("y", "owl-10.jpg"), ("2", "owl-11.jpg"), ("x", "swan-1.jpg")):
        await driver.keys(key)
        assert shown(driver) == f"/queries/{name}"
    assert driver.counts == {"jay": 7, "owl": 5, "wren": 5}
    await driver.keys("u", "u", "L")
    assert "5 seen" in "\n".join(lines(driver.app))


def test_a_histogram_shows_every_value_and_its_height() -> None:
    assert columns([0.0, 0.1, 0.1, 0.1, 0.1, 1.0], 0.0, 1.0, 10, 1) == ["▂█       ▂"]
    tall = columns([0.5] * 100 + [0.95], 0.0, 1.0, 4, 2)
    assert tall == ["  █ ", "  █▁"]
    assert columns([], 0.0, 1.0, 3, 1) == ["   "]


def test_a_histogram_without_values_says_why() -> None:
    histogram = Histogram()
    histogram.show([], [], 0.0, "one photo of each class")
    assert histogram.lines(80, 6)[0][0][0] == "one photo of each class"


@pytest.mark.parametrize("size", [(80, 24), (60, 20)])
async def test_summary_and_caption_are_not_cut(drive: Drive, lines: Lines, size: tuple[int, int]) -> None:
    driver = await drive(size=size)
    await driver.app.workspace.query_pane.ask_now(["/queries/jay-10.jpg"])
    await driver.pilot.pause()
    words = " ".join("".join(line[1:22] for line in lines(driver.app)).split())
    if size == (60, 20):
        assert "light: unlike any jay[ ] other class H: blend" in words
    await driver.keys("L")
    assert "Answers · 1 of 1" in lines(driver.app)[0]


async def test_none_of_these_is_kept_sorted_separately_and_can_be_undone(
    driver: Driver, fake_engine: FakeEngine, lines: Lines
) -> None:
    controller = driver.app.controller
    await opened(driver)
    before = controller.threshold, controller.query.rejected
    await driver.keys("l", "x")  # the jay
    assert (controller.threshold, controller.query.rejected) == before
    assert [other.key for other in controller.session.state.others] == ["jay-10.jpg"]
    assert not controller.session.is_saved
    assert "◆ none of these" in "\n".join(lines(driver.app))
    assert "1 labelled (1 none of these)" in "\n".join(lines(driver.app))
    await driver.keys("f")
    await driver.type("none of these")
    assert names(driver.app.screen) == ["jay-10.jpg"]  # type: ignore[arg-type]
    await driver.keys("e", "down", "down", "enter", "enter")
    assert [folder for _, folder, _ in fake_engine.sorted] == [f"{Path.cwd()}/sorted/none of these"]
    await driver.keys("1")  # label it as a jay again
    assert controller.session.state.others == ()
    await driver.keys("u")
    assert driver.said == "undone: jay-10.jpg added to jay   ctrl+r: redo"
    await driver.keys("u")
    assert driver.said == "undone: labelled jay-10.jpg as none of these   ctrl+r: redo"
    assert controller.session.state.others == ()
    await driver.keys("ctrl+r")
    assert driver.said == "redone: labelled jay-10.jpg as none of these   u: undo"


def test_tile_shows_label_probability_or_how_well_it_is_known() -> None:
    scores = [
        {"id": 1, "probability": 0.9, "error": 1.0, "explained": 0.41},
        {"id": 2, "probability": 0.1, "error": 2.0, "explained": 0.2},
    ]
    answer: Any = {"path": "/q/1.jpg", "scores": scores, "known": 0.41, "unknown": False}
    unknown: Any = {**answer, "unknown": True}
    assert Reviewed(answer, "jay", None, is_seen=True).words == "jay 0.90"
    assert Reviewed(answer, "jay", "owl", is_seen=True, label_id=2).words == "owl 0.10"
    assert Reviewed(unknown, "unknown", None, is_seen=True).words == "unknown 41%"
    assert Reviewed(answer, "jay", "none of these", is_seen=True).words == "none of these"


@pytest.mark.parametrize(("size", "least"), [((80, 24), 8), ((140, 40), 32)])
async def test_photos_fill_the_review(
    drive: Drive, fake_engine: FakeEngine, lines: Lines, size: tuple[int, int], least: int
) -> None:
    folders = {**FakeEngine.FOLDERS, "/many": [f"jay-{number}.jpg" for number in range(100, 220)]}
    fake_engine.FOLDERS = folders  # type: ignore[misc]
    driver = await drive(size=size)
    driver.app.workspace.ask(["/many"])
    await driver.idle()
    await driver.keys("L")

    def whole() -> int:
        return "\n".join(lines(driver.app)).count("jay 0.90") - 1  # one name also appears in the details line

    assert whole() >= least
    if size == (140, 40):
        assert driver.app.screen.query_one(Histogram).display
        await driver.keys("left_curly_bracket", "left_curly_bracket")
        assert "\n".join(lines(driver.app)).count("○") >= 60


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_enlarged_photo_can_be_labelled_and_closed_step_by_step(
    drive: Drive, lines: Lines, size: tuple[int, int]
) -> None:
    driver = await drive(size=size)
    review = await opened(driver)
    await driver.keys("l", "enter")
    assert "coloured: unlike any jay" in "\n".join(lines(driver.app))
    assert "nearest: jay/jay-0.jpg" in "\n".join(lines(driver.app))
    assert not driver.app.screen.query_one(Histogram).display  # the photo has its rows
    await driver.keys("j", "1")  # label the owl as a jay
    assert driver.counts == {"jay": 7, "owl": 4, "wren": 5}
    assert shown(driver) == "/queries/owl-11.jpg"  # the next photo is shown
    await driver.keys("k", "x", "u")
    assert shown(driver) == "/queries/owl-11.jpg"
    await driver.keys("escape", "space", "escape")
    assert review.gallery.selection == []
    assert driver.app.screen is review
    await driver.keys("enter", "enter")
    assert not review.is_current
    assert shown(driver) == "/queries/swan-1.jpg"


async def test_the_table_has_all_columns_again_after_a_large_photo(driver: Driver, lines: Lines) -> None:
    await opened(driver)
    await driver.keys("g")
    table = lines(driver.app)[1:4]
    await driver.keys("enter", "escape")
    assert lines(driver.app)[1:4] == table


async def test_answers_are_judged_together_on_request(
    drive: Drive, fake_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    asked: list[bool] = []
    query = fake_engine.op_query

    def noted(tell: Any, paths: list[str], jointly: bool = False) -> None:
        asked.append(jointly and len(paths) > 1)
        query(tell, paths)

    monkeypatch.setattr(fake_engine, "op_query", noted)
    driver = await drive()
    await opened(driver)
    assert not any(asked)
    await driver.keys("J")
    assert any(asked)
    assert "classified jointly" in lines(driver.app)[0]
    asked.clear()
    await driver.keys("J")
    assert asked
    assert not any(asked)


async def test_table_is_sorted_by_its_columns(driver: Driver, lines: Lines) -> None:
    review = await opened(driver)
    await driver.keys("g")
    rows = [line for line in lines(driver.app) if "-10.jpg" in line]
    assert len(rows) >= 3
    seen = set()
    for _ in range(8):
        await driver.keys("s")
        seen |= {word for word in lines(driver.app)[1].split() if word.endswith("▾")}
    assert seen == {"fil▾", "answ▾", "prob▾", "know▾", "lea▾", "riva▾", "most▾"}
    assert review.gallery.view == "list"
    for head, mark in (("known", "know▾"), ("rival", "riva▾"), ("file", "fil▾")):  # a click does the same
        await driver.pilot.click("#review-columns", offset=(lines(driver.app)[1].index(head) + 1, 0))
        await driver.idle()
        assert mark in lines(driver.app)[1]


async def test_the_large_view_shows_the_error_map_without_colours(
    drive: Drive, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    driver = await drive()
    await opened(driver)
    await driver.keys("l", "enter")
    assert "light: unlike any" in "\n".join(lines(driver.app))
