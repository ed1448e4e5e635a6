"""The app without its display, using an engine that answers from a table."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from frn_tui.document.controller import Controller

from frn.errors import FrnError
from tests.tui.fake_engine import FakeEngine


def photos(name: str, count: int) -> list[str]:
    return [f"/photos/{name}-{number}.jpg" for number in range(count)]


@pytest.fixture
@asynccontextmanager
async def controller(fake_engine: FakeEngine) -> AsyncIterator[Controller]:
    """A controller with a model."""
    made = Controller(fake_engine)
    await made.open_model("conv4")
    yield made  # noqa: PT022  (a context, entered by the test)


def names(controller: Controller) -> dict[str, int]:
    return {entry.name: len(entry.supports) for entry in controller.session.state.classes}


async def test_an_edit_made_while_saving_is_unsaved(controller: Controller, fake_engine: FakeEngine) -> None:
    await controller.add_classes({"jay": photos("jay", 3)})
    fake_engine.pause = asyncio.Event()
    saving = asyncio.create_task(controller.save("/p/x.frn.json"))
    await asyncio.sleep(0)
    controller.session.create("owl")
    fake_engine.pause.set()
    await saving
    assert controller.project == fake_engine.locked == "/p/x.frn.json"
    assert not controller.session.is_saved
    controller.session.undo()
    assert controller.session.is_saved


async def test_journal_of_an_edit_made_while_saving_names_the_project(
    controller: Controller, fake_engine: FakeEngine
) -> None:
    await controller.add_classes({"jay": photos("jay", 3)})
    fake_engine.late["save"] = asyncio.Event()
    saving = asyncio.create_task(controller.save("/p/x.frn.json"))
    while not fake_engine.saved:
        await asyncio.sleep(0)
    controller.session.create("owl")
    journal = asyncio.create_task(controller.journal())
    await asyncio.sleep(0.01)
    assert not fake_engine.kept
    fake_engine.late["save"].set()
    await journal
    assert fake_engine.kept
    assert fake_engine.kept["project"] == "/p/x.frn.json"
    await saving


async def test_classes_from_a_folder_appear_before_the_model_and_a_photo_waits_for_examples(
    controller: Controller,
) -> None:
    async with controller._opening:  # a model is still being opened
        opening = asyncio.create_task(
            controller.open_folder("/photos", {"jay": photos("jay", 3), "owl": photos("owl", 2)})
        )
        asking = asyncio.create_task(controller.ask(["/queries/owl-10.jpg"]))
        await asyncio.sleep(0.01)
        assert names(controller) == {"jay": 0, "owl": 0}
        assert list(controller.coming.values()) == [3, 2]
        assert not asking.done()
    await opening
    await asking
    assert names(controller) == {"jay": 3, "owl": 2}
    assert ["scores" in answer for answer in controller.query.answers] == [True]
    assert controller.session.is_saved


async def test_a_photo_that_is_classified_again_has_at_most_one_problem(controller: Controller) -> None:
    await controller.add_classes({"jay": photos("jay", 3)})
    for name in ("bad-1.jpg", "bad-1.jpg", "bad-2.jpg"):
        await controller.ask([f"/queries/{name}"])
    assert [problem.path for problem in controller.problems] == ["/queries/bad-1.jpg", "/queries/bad-2.jpg"]


async def test_folders_become_classes_in_one_edit(controller: Controller) -> None:
    seen: list[tuple[str, int, int]] = []
    classes = {"jay": photos("jay", 3), "wren": [*photos("wren", 2), "/photos/bad.jpg"]}
    controller.progress = lambda *now: seen.append(now)
    outcome = await controller.add_classes(classes)
    assert str(outcome) == "5 added, 1 unreadable"
    assert names(controller) == {"jay": 3, "wren": 2}
    assert [problem.path for problem in controller.problems] == ["/photos/bad.jpg"]
    assert seen[-1] == ("Adding 2 classes", 6, 6)
    assert set(controller.reports) == {entry.id for entry in controller.session.state.classes}
    assert controller.threshold == 0.4
    controller.session.undo()
    await controller.sync()
    assert names(controller) == {}
    await controller.add_classes({"jay": photos("jay", 4)})
    await controller.add_classes({"jay": photos("jay", 6)})
    assert names(controller) == {"jay": 6}  # adding the same folder again adds only new photos


async def test_photos_of_a_folder_unknown_belong_to_no_class(controller: Controller) -> None:
    classes = {"jay": photos("jay", 2), "Unknown": [*photos("jay", 1), *photos("owl", 2)]}
    for change in (controller.add_classes(classes), controller.open_folder("/photos", classes)):
        await change
        assert names(controller) == {"jay": 2}
        assert [str(photo.path) for photo in controller.session.state.others] == photos("owl", 2)


async def test_folder_with_an_invalid_class_name_is_skipped(controller: Controller) -> None:
    classes = {"jay": photos("jay", 2), "jay ": photos("jay", 3), "x" * 210: photos("owl", 1)}
    outcome = await controller.add_classes(classes)
    assert names(controller) == {"jay": 3}
    assert str(outcome) == "3 added, 2 already added, 1 with an invalid class name"
    assert "has 210 characters" in controller.problems[-1].reason


async def test_a_photo_of_two_classes_is_named_and_used_in_neither(controller: Controller) -> None:
    classes = {"jay": photos("jay", 3), "owl": [*photos("owl", 2), photos("jay", 1)[0]], "wren": photos("wren", 1)}
    opened = await controller.open_folder("/birds", classes)
    assert (str(opened), names(controller)) == ("5 added, 1 in two classes", {"jay": 2, "owl": 2, "wren": 1})
    assert f"{photos('jay', 1)[0]} of class 'jay' and" in controller.problems[-1].reason
    assert controller.session.is_saved
    wren = controller.session.state.named("wren")
    assert wren is not None
    assert str(await controller.add(wren.id, [*photos("owl", 1), photos("wren", 2)[1]])) == "1 added, 1 in two classes"
    assert names(controller) == {"jay": 2, "owl": 1, "wren": 2}
    controller.session.undo()
    assert names(controller) == {"jay": 2, "owl": 2, "wren": 1}


async def test_classifying_shows_the_first_answer_and_edits_update_it(controller: Controller) -> None:
    with pytest.raises(FrnError, match="no class has an example yet"):
        await controller.ask(["/q/jay-9.jpg"])
    await controller.add_classes({"jay": photos("jay", 2), "wren": photos("wren", 2)})
    await controller.ask(["/q/wren-7.jpg", "/q/bad.jpg", "/q/jay-8.jpg"])
    wren = controller.session.state.named("wren")
    assert wren is not None
    assert controller.query.answer is not None
    assert controller.query.answer["scores"][0]["id"] == wren.id
    assert "maps" in controller.query.answer
    await controller.show("/q/jay-8.jpg")
    assert controller.query.answer["path"] == "/q/jay-8.jpg"
    assert "maps" in controller.query.answer
    assert controller.query.rejected == 0
    controller.session.set_threshold(0.6)
    await controller.sync()
    assert controller.query.rejected == 2
    assert controller.query.answer["path"] == "/q/jay-8.jpg"
    await controller.show("/q/jay-8.jpg")
    controller.session.delete(wren.id)
    await controller.sync()
    assert all(score["id"] != wren.id for answer in controller.query.answers for score in answer.get("scores", []))


async def test_concurrent_queries_for_the_same_photos_are_all_answered(controller: Controller) -> None:
    await controller.add_classes({"jay": photos("jay", 2)})
    paths = [f"/q/jay-{number}.jpg" for number in range(9)]
    await asyncio.gather(controller.ask(paths[:6]), controller.ask(paths[3:]), controller.ask([*paths, paths[0]]))
    assert [answer["path"] for answer in controller.query.answers] == paths
    controller.session.drop(paths[1:3])
    await asyncio.gather(controller.ask(paths[:5]), controller.ask(paths))
    assert sorted(answer["path"] for answer in controller.query.answers) == paths


async def test_undo_restores_answers_with_the_classes(controller: Controller) -> None:
    await controller.add_classes({"jay": photos("jay", 1)})
    await controller.ask(["/q/jay-1.jpg", "/q/owl-1.jpg"])
    controller.session.undo()
    await controller.sync()
    assert [answer.get("reason") for answer in controller.query.answers] == ["no class has an example"] * 2
    controller.session.redo()
    await controller.sync()
    assert all("scores" in answer for answer in controller.query.answers)
    assert "maps" in (controller.query.answer or {})
    controller.session.undo()
    await controller.sync()
    with pytest.raises(FrnError, match="no photo to add"):
        controller.label(controller.query.answers, 1)


async def test_missing_maps_and_changed_files_are_embedded_again(
    controller: Controller, fake_engine: FakeEngine
) -> None:
    fake_engine.content = {"/p/jay-1.jpg": "new"}
    await controller.load("/p/birds.frn.json")
    (entry,) = controller.session.state.classes
    assert [support.key for support in entry.supports] == ["new"]
    assert entry.id == 4
    assert "has changed since it was added" in controller.problems[0].reason
    assert controller.project == "/p/birds.frn.json"
    await controller.change_model("resnet12")
    assert fake_engine.known == {"new"}


async def test_cancelled_addition_changes_nothing(controller: Controller, fake_engine: FakeEngine) -> None:
    await controller.add_classes({"jay": photos("jay", 2)})
    fake_engine.pause = asyncio.Event()
    adding = asyncio.create_task(controller.add_classes({"wren": photos("wren", 3)}))
    await asyncio.sleep(0)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    fake_engine.pause = None
    assert names(controller) == {"jay": 2}
    await controller.sync()


async def test_changed_file_does_not_block_undo(controller: Controller, fake_engine: FakeEngine) -> None:
    fake_engine.content = {"/p/jay-1.jpg": "new"}
    await controller.load("/p/birds.frn.json")
    assert not controller.session.is_saved
    controller.session.create("owl")
    await controller.sync()
    controller.session.undo()
    await controller.sync()
    assert names(controller) == {"jay": 1}
    assert not controller.session.can_undo


async def test_undo_keeps_the_photos_of_a_folder_that_is_being_opened(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frn_tui.document.controller.PART", 2)
    folders = {"jay": photos("jay", 3), "owl": photos("owl", 2)}
    opening = asyncio.create_task(controller.open_folder("/photos", folders))
    while not names(controller).get("jay"):
        await asyncio.sleep(0)
    controller.session.rename(controller.session.state.classes[0].id, "crow")
    await opening
    assert names(controller) == {"crow": 3, "owl": 2}
    controller.session.undo()
    assert names(controller) == {"jay": 3, "owl": 2}
    assert controller.session.is_saved


async def test_only_the_project_of_the_classes_is_replaced_without_asking(
    controller: Controller, fake_engine: FakeEngine
) -> None:
    await controller.load("/p/birds.frn.json")
    await controller.save("/p/birds.frn.json")
    await controller.save("/p/copy.frn.json")
    await controller.save("/p/copy.frn.json")
    await controller.open_folder(None, {})
    await controller.save("/p/birds.frn.json")
    asked = [(call["path"], call["origin"]) for call in fake_engine.saved]
    birds, copied = "/p/birds.frn.json", "/p/copy.frn.json"
    assert asked == [(birds, birds), (copied, birds), (copied, copied), (birds, None)]
