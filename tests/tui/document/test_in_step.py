"""The engine knows the classes on the screen, even after opening, cancelling or undoing just before a request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from frn_tui.client.file_requests import LeftMoves
from frn_tui.client.protocol import EngineError
from frn_tui.dialogs.dialogs import Choose
from frn_tui.document.controller import Controller
from frn_tui.document.photo_files import bundle, offer_left, settle, sort, step_over, take_back

from frn.errors import FrnError
from tests.tui.conftest import Driver
from tests.tui.fake_engine import FakeEngine

WRENS = {"wren": [f"/photos/wren/wren-{number}.jpg" for number in range(3)]}


@pytest.fixture
@asynccontextmanager
async def controller(fake_engine: FakeEngine) -> AsyncIterator[Controller]:
    """A controller with a model and a class of wrens."""
    made = Controller(fake_engine)
    await made.open_model("conv4")
    await made.open_folder(None, {})
    await made.add_classes(WRENS)
    yield made  # noqa: PT022  (a context, entered by the test)


async def reached(fake_engine: FakeEngine, op: str, times: int = 1) -> None:
    for _ in range(100):
        if fake_engine.calls.count(op) >= times:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{op} was not asked for: {fake_engine.calls}")


async def cancelled(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def known(fake_engine: FakeEngine) -> list[str]:
    """Return the names of the classes that the engine uses."""
    return [entry["name"] for entry in fake_engine.classes["classes"]]


@pytest.mark.parametrize("what", ["export", "query"])
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_answers_are_for_the_project_being_opened(
    controller: Controller, fake_engine: FakeEngine, what: str, is_cancelled: bool
) -> None:
    opening = fake_engine.held["embed"] = asyncio.Event()
    loading = asyncio.create_task(controller.load("/p/birds.frn.json"))
    await reached(fake_engine, "embed", 2)
    assert known(fake_engine) == ["wren"]
    if is_cancelled:
        await cancelled(loading)
    work = {"export": controller.export("/x.onnx", "classifier"), "query": controller.ask(["/q/jay-9.jpg"])}
    asking = asyncio.create_task(work.pop(what))
    for other in work.values():
        other.close()
    await asyncio.sleep(0.01)
    assert what not in fake_engine.calls
    opening.set()
    with suppress(EngineError):  # the project contains a single class
        await asking
    assert what in fake_engine.calls
    assert known(fake_engine) == ["jay"]


async def test_classes_still_give_answers_after_a_cancelled_model_change(
    controller: Controller, fake_engine: FakeEngine
) -> None:
    await controller.ask(["/q/wren-8.jpg", "/q/wren-9.jpg"])
    fake_engine.held["embed"] = asyncio.Event()
    changing = asyncio.create_task(controller.change_model("resnet12"))
    await reached(fake_engine, "embed", 2)
    await cancelled(changing)
    fake_engine.held.clear()
    assert not fake_engine.known
    await controller.show("/q/wren-9.jpg")  # this requests the maps
    assert len(fake_engine.known) == 3
    assert controller.query.answer is not None
    assert "maps" in controller.query.answer


async def test_a_model_that_the_engine_opened_although_it_was_cancelled_is_not_used(
    controller: Controller, fake_engine: FakeEngine
) -> None:
    fake_engine.late["open_model"] = asyncio.Event()
    changing = asyncio.create_task(controller.change_model("resnet12"))
    await reached(fake_engine, "open_model", 2)
    await asyncio.sleep(0.01)
    await cancelled(changing)
    fake_engine.late.clear()
    assert fake_engine.model == "resnet12"
    await controller.ask(["/q/wren-8.jpg"])
    assert controller.model_name == fake_engine.model == "conv4"


async def test_an_edit_that_the_engine_has_but_the_app_has_undone_is_undone_there(
    controller: Controller, fake_engine: FakeEngine
) -> None:
    controller.session.create("jay")
    await controller.sync()
    fake_engine.late["classes"] = asyncio.Event()
    controller.session.delete(controller.session.state.classes[-1].id)
    deleting = asyncio.create_task(controller.sync())
    await asyncio.sleep(0.01)
    assert known(fake_engine) == ["wren"]
    await cancelled(deleting)
    fake_engine.late.clear()
    controller.session.undo()
    await controller.sync()
    assert known(fake_engine) == ["wren", "jay"]


async def test_an_edit_while_classes_are_sent_is_sent_as_well(controller: Controller, fake_engine: FakeEngine) -> None:
    controller.session.create("jay")
    fake_engine.held["classes"] = asyncio.Event()
    telling = asyncio.create_task(controller.sync())
    await reached(fake_engine, "classes", 3)
    controller.session.create("owl")
    fake_engine.held.pop("classes").set()
    await asyncio.gather(telling, controller.sync())
    assert known(fake_engine) == ["wren", "jay", "owl"]


async def test_photos_stay_in_the_project_to_which_they_were_added(
    controller: Controller, fake_engine: FakeEngine
) -> None:
    fake_engine.held["embed"] = asyncio.Event()
    tasks = [
        asyncio.create_task(controller.add(1, ["/photos/wren/wren-4.jpg"])),
        asyncio.create_task(controller.add_classes({"jay": ["/photos/jay/jay-1.jpg", "/photos/jay/jay-2.jpg"]})),
    ]
    await reached(fake_engine, "embed", 3)
    await controller.open_folder(None, {})
    assert controller.session.create("owl") == 1
    fake_engine.held.pop("embed").set()
    reasons = [str(error) for error in await asyncio.gather(*tasks, return_exceptions=True)]
    assert reasons == [
        "another project was opened; 1 photo not added",
        "another project was opened; 2 photos not added",
    ]
    assert [len(entry.supports) for entry in controller.session.state.classes] == [0]


async def test_photos_for_a_deleted_class_are_reported_with_the_class_name(
    controller: Controller, fake_engine: FakeEngine
) -> None:
    fake_engine.held["embed"] = asyncio.Event()
    adding = asyncio.create_task(controller.add(1, ["/photos/wren/wren-4.jpg"]))
    await reached(fake_engine, "embed", 2)
    controller.session.delete(1)
    fake_engine.held.pop("embed").set()
    with pytest.raises(FrnError, match="wren was deleted; 1 photo not added"):
        await adding


async def test_a_query_ends_when_its_project_is_closed(controller: Controller, fake_engine: FakeEngine) -> None:
    controller.arrangement.kind = "unknown"
    fake_engine.held["query"] = asyncio.Event()
    asking = asyncio.create_task(controller.ask(["/q/wren-8.jpg", "/q/bad-9.jpg"]))
    await reached(fake_engine, "query")
    await controller.open_folder(None, {})
    await asyncio.wait_for(asking, 5)  # the fake_engine does not answer yet
    fake_engine.held.pop("query").set()
    await controller.add_classes({"jay": ["/photos/jay/jay-1.jpg"]})
    assert not controller.query.answers
    assert not controller.problems
    assert controller.arrangement.kind == "all"


async def test_missing_photos_belong_to_the_checked_project(controller: Controller, fake_engine: FakeEngine) -> None:
    fake_engine.away = {WRENS["wren"][0]}
    await controller.find_missing()
    assert controller.missing == fake_engine.away
    fake_engine.held["stamp"] = asyncio.Event()
    looking = asyncio.create_task(controller.find_missing())
    await reached(fake_engine, "stamp", 2)
    await controller.open_folder(None, {})
    fake_engine.held.pop("stamp").set()
    await looking
    assert not controller.missing


async def test_project_follows_photos_moved_before_a_cancel(controller: Controller, fake_engine: FakeEngine) -> None:
    photos = [(path, "wren") for path in WRENS["wren"]]
    await controller.ask([path for path, _ in photos])
    fake_engine.held["sort"] = asyncio.Event()
    sorting = asyncio.create_task(sort(controller, "/out", photos, move=True))
    await reached(fake_engine, "sort")
    sorting.cancel()
    await asyncio.sleep(0)
    fake_engine.held["sort"].set()
    with pytest.raises(asyncio.CancelledError):
        await sorting
    paths = ["/out/wren/wren-0.jpg", *WRENS["wren"][1:]]
    assert len(fake_engine.sorted) == 1
    assert [answer["path"] for answer in controller.query.answers] == paths
    assert [str(one.path) for one in controller.session.state.classes[0].supports] == paths


async def test_moving_photos_is_a_separate_undo_step_and_not_an_edit(controller: Controller) -> None:
    session = controller.session
    session.mark_saved()
    await sort(controller, "/out", [("/q/jay-1.jpg", "wren")], move=True)
    moves = session.state.moves
    assert moves is not None
    assert (moves.said, moves.photos) == ("moved 1 photo", (("/q/jay-1.jpg", "/out/wren/jay-1.jpg", False),))
    assert session.is_saved
    session.create("jay")
    assert session.state.moves is moves
    session.undo()
    assert session.undo().moves is None
    assert session.is_saved


@pytest.mark.parametrize("first", ["/a/jay.jpg", "/out/wren/jay.jpg"])
async def test_undo_restores_the_answers_of_photos_with_the_same_content(
    controller: Controller, fake_engine: FakeEngine, first: str
) -> None:
    asked = [first, "/b/jay.jpg"]
    fake_engine.twins = {"/b/jay.jpg"}

    def answered() -> list[str]:
        assert all("scores" in answer for answer in controller.query.answers)
        return [answer["path"] for answer in controller.query.answers]

    await controller.ask(asked)
    await sort(controller, "/out", [(path, "wren") for path in asked], move=True)
    moves = controller.session.state.moves
    assert moves is not None
    for _ in range(2):
        assert answered() == ["/out/wren/jay.jpg"]
        await step_over(controller, moves, undo=True)
        assert sorted(answered()) == sorted(asked)
        await step_over(controller, moves, undo=False)
    assert fake_engine.moved[0] == {"/out/wren/jay.jpg": "/b/jay.jpg"}  # a copy, before the other photo moves back


async def test_moves_of_a_killed_program_are_finished(controller: Controller, fake_engine: FakeEngine) -> None:
    fake_engine.settled = {WRENS["wren"][0]: "/out/wren-0.jpg"}
    said = await settle(controller)
    assert said == "1 photo restored after an interrupted move: /photos/wren/wren-0.jpg is now /out/wren-0.jpg"
    assert str(controller.session.state.classes[0].supports[0].path) == "/out/wren-0.jpg"


@pytest.mark.parametrize("chosen", ["finish", "take back", "leave", None])
async def test_interrupted_moves_are_finished_or_taken_back(
    controller: Controller, fake_engine: FakeEngine, chosen: str | None
) -> None:
    first, second = WRENS["wren"][:2]
    place, journal = "/out/wren/wren-0.jpg", "/state/moved/1.jsonl"
    fake_engine.left_moves = LeftMoves(journal, "/out", 0.0, [(first, place, False)], [(second, "wren")], ["wren"])
    fake_engine.under_way = True
    titles = []

    async def choose(title: str, options: list[str]) -> int | None:
        titles.append((title, *options))
        return None if chosen is None else ["finish", "take back", "leave"].index(chosen)

    said = await offer_left(controller, choose)
    assert titles == [
        (
            "Moving 2 photos into /out was interrupted after 1",
            *("move the other 1", "take back 1 photo", "leave them (u takes them back)"),
        )
    ]
    paths = [str(support.path) for support in controller.session.state.classes[0].supports[:2]]
    moved = {"finish": [place, "/out/wren/wren-1.jpg"], "take back": [first, second]}.get(chosen or "", [place, second])
    assert paths == moved
    assert said == {"finish": "1 moved", "take back": "undone: moved 1 photo   ctrl+r: redo"}.get(chosen or "", "")
    assert fake_engine.under_way == (chosen is None)
    state = controller.session.state.moves
    assert [one for one, *_ in state.photos] == [second, first] if chosen == "finish" and state else state is None


async def test_moves_of_an_earlier_app_can_be_undone(controller: Controller, fake_engine: FakeEngine) -> None:
    async def choose(title: str, options: list[str]) -> int | None:
        assert title.startswith("1 photo moved into /out on 1970-01-0")
        return 0

    assert await take_back(controller, choose) == "nothing to undo"
    fake_engine.left_moves = LeftMoves("/state/moved/1.jsonl", "/out", 0.0, [("/a.jpg", "/out/a.jpg", False)], [], [])
    assert await take_back(controller, choose) == "undone: moved 1 photo   ctrl+r: redo"
    assert fake_engine.moved == [{"/out/a.jpg": "/a.jpg"}]


async def test_removed_example_is_not_counted_as_missing(controller: Controller, fake_engine: FakeEngine) -> None:
    first, second = fake_engine.away = set(WRENS["wren"][:2])
    await controller.find_missing()
    controller.session.remove([first.rpartition("/")[2]])
    await controller.sync()
    assert controller.missing == {second}
    controller.session.delete(1)
    await controller.sync()
    assert not controller.missing


@pytest.mark.parametrize("what", ["save", "bundle"])
async def test_model_restored_by_undo_is_saved(controller: Controller, fake_engine: FakeEngine, what: str) -> None:
    await controller.change_model("resnet12")
    controller.session.undo()
    fake_engine.calls.clear()
    write = controller.save("/x.frn.json") if what == "save" else bundle(controller, "/x.zip")
    await asyncio.gather(write, controller.sync())
    assert controller.model_name == "conv4"
    assert fake_engine.calls.index("open_model") < fake_engine.calls.index(what)


async def test_project_is_not_saved_over_another(controller: Controller, fake_engine: FakeEngine) -> None:
    fake_engine.held["open_model"] = asyncio.Event()
    opening = asyncio.create_task(controller.open_model("resnet12"))
    await reached(fake_engine, "open_model", 2)
    saving = asyncio.create_task(controller.save("/wrens.frn.json"))
    await asyncio.sleep(0)
    controller.begin(controller.session.state)
    fake_engine.held.pop("open_model").set()
    await opening
    with pytest.raises(FrnError, match="another project was opened"):
        await saving
    assert "save" not in fake_engine.calls


async def test_stepping_back_while_answers_are_updated_shows_new_ones(
    controller: Controller, fake_engine: FakeEngine
) -> None:
    await controller.ask([f"/q/wren-{number}.jpg" for number in range(5, 9)])
    await controller.show("/q/wren-6.jpg")  # now maps exist for two of them
    controller.session.set_threshold(0.6)
    renewing = fake_engine.held["query"] = asyncio.Event()
    telling = asyncio.create_task(controller.sync())
    await reached(fake_engine, "query", 4)
    controller.query.show("/q/wren-5.jpg")
    renewing.set()
    await telling
    assert controller.query.rejected == 4
    assert controller.query.answer is not None
    assert "maps" in controller.query.answer


async def test_interrupted_update_of_answers_is_repeated(controller: Controller) -> None:
    await controller.ask(["/q/wren-8.jpg", "/q/wren-9.jpg"])
    await controller.sync()
    controller.session.set_threshold(0.6)
    telling = asyncio.create_task(controller.sync())
    while controller.query.rejected == 0:  # the visible answer is updated first
        await asyncio.sleep(0)
    await cancelled(telling)
    await controller.sync()
    assert controller.query.rejected == 2


async def test_a_request_soon_after_a_cancel_is_not_cancelled(driver: Driver, fake_engine: FakeEngine) -> None:
    driver.app.workspace.ask(["/queries"])
    await driver.idle()
    fake_engine.held["query"] = asyncio.Event()
    await driver.pilot.press("full_stop", "full_stop", "full_stop")
    fake_engine.held.pop("query").set()
    await driver.idle()
    assert "Cancelled" not in driver.said


@pytest.mark.parametrize("key", ["ctrl+q", "ctrl+n"])
async def test_quitting_asks_for_confirmation_while_photos_are_being_added(
    driver: Driver, fake_engine: FakeEngine, key: str
) -> None:
    app = driver.app
    fake_engine.held["embed"] = asyncio.Event()
    app.workspace.classes_pane.add(["/queries/owl-10.jpg"])
    await driver.until(lambda: app.controller.adding)
    await driver.pilot.press(key)
    await driver.until(lambda: isinstance(app.screen, Choose))
    assert "still being added" in app.screen.dialog_title  # type: ignore[attr-defined]
    await driver.pilot.press("escape")
    fake_engine.held.pop("embed").set()
    await driver.idle()
    assert not app._exit
    assert driver.counts == {"jay": 7, "owl": 4, "wren": 5}
