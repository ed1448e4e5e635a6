"""Operations on photo files: relocate moved ones, bundle them with the project, sort them into folders."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from frn.images.boxes import box_name, split_box
from frn.projects.session import Moves, State, Support
from frn_tui.client import file_requests
from frn_tui.client.file_requests import EndMoves, FindMoves, LeftMoves, PlanMoves
from frn_tui.client.protocol import NOT_PLACED, EngineError
from frn_tui.document.controller import Controller
from frn_tui.document.queries import Problem
from frn_tui.terminal.text import count_of


async def relocate(controller: Controller, folder: str) -> tuple[int, int]:
    """Find missing examples by content in a folder and its subfolders; return how many were found and missing."""
    state, missing = controller.session.state, controller.missing
    sizes = {photo.key: photo.size for photo in state.photos if str(photo.path) in missing}
    boxes = {path.removeprefix(str(split_box(path)[0])) for path in missing} - {""}
    request = file_requests.RelocatePhotos(folder, sizes, tuple(boxes))
    relocated = await controller.engine.call(request, controller.told_to("Looking for photos"))
    if relocated:
        session = controller.session
        session.edit(_with(session.state, lambda support: relocated.get(support.key, support)))
        session.name_act(f"found {count_of(len(relocated), 'photo')}")
        controller.place = _renamed(controller.place, state, relocated)
    await controller.find_missing()
    await controller.sync()
    return len(relocated), len(sizes)


def _renamed(place: str | None, state: State, relocated: Mapping[str, Support]) -> str | None:
    """Return the new path of an opened folder if its photos were found in another one of the same content."""
    for photo in state.photos:
        old, new = str(photo.path), str(relocated[photo.key].path) if photo.key in relocated else ""
        if place and old.startswith(f"{place}/") and new.endswith(within := old.removeprefix(place)):
            return new.removesuffix(within)
    return place


async def bundle(controller: Controller, path: str, *, replace: bool = False) -> None:
    async with controller.own_model():
        request = file_requests.WriteBundle(path, controller.session.state, replace)
    # Released here: opening another model now waits in the engine's queue.
    await controller.engine.call(request, controller.told_to("Bundling photos"))


def plan(controller: Controller, folder: str, photos: Sequence[tuple[str, str]], *, begin: bool = False) -> PlanMoves:
    """Return the request to plan a move."""
    # Verdicts of all classes: if two share a folder name, the folders do not depend on which photos are sorted.
    verdicts = tuple(dict.fromkeys([*controller.names.values(), *(verdict for _, verdict in photos)]))
    # once, even if several boxes of a photo have answers
    files = {split_box(path)[0]: (path, verdict) for path, verdict in reversed(photos)}
    return PlanMoves(folder, list(files.values())[::-1], verdicts, begin)


async def describe_move(controller: Controller, folder: str, photos: Sequence[tuple[str, str]]) -> str:
    """Return what a move of photos would do, as a question; empty if nothing would move."""
    planned = await controller.engine.call(plan(controller, folder, photos))
    if not planned["moves"]:
        return ""
    said = f"Move {count_of(planned['moves'], 'photo')} into {count_of(planned['folders'], 'folder')} of {folder}?"
    said += f" {planned['stay']:,} stay." * bool(planned["stay"])
    return said + f" {count_of(planned['taken'], 'name')} taken: numbered." * bool(planned["taken"])


async def sort(
    controller: Controller, folder: str, photos: Sequence[tuple[str, str]], *, move: bool, left: LeftMoves | None = None
) -> str:
    """Copy photos to one folder per verdict, or move them, which can be undone; return a summary.

    Given the moves that an earlier app left, they are finished.
    """
    request = plan(controller, folder, photos, begin=True)
    verdicts, places, twins, journal = request.verdicts, dict[str, str](), set[str](), ""
    if left is not None:
        verdicts, journal = tuple(left.verdicts), left.journal
    elif move:
        journal = (await controller.engine.call(request))["journal"]
    if move:
        photos = request.photos

    async def put(path: str, verdict: str) -> None:
        nonlocal journal
        request = file_requests.SortPhoto(folder, path, verdict, verdicts, move, journal)
        placed = await controller.engine.call(request)
        places[path], journal = placed["place"], placed["journal"]
        if placed["is_twin"]:
            twins.add(path)

    async with controller.moving:
        try:
            failed = await _one_by_one(controller, places, photos, put, "Sorting photos")
        finally:
            if move:
                if moved := {path: place for path, place in places.items() if place != path}:
                    # A photo that was already there is included if a twin was merged with it: undo keeps both answers.
                    listed = moved | {place: place for place in moved.values() if place in places}
                    steps = tuple((path, place, path in twins) for path, place in listed.items())
                    steps += tuple(left.photos if left else ())
                    controller.session.note_moves(Moves(f"moved {count_of(len(moved), 'photo')}", journal, steps))
                    with contextlib.suppress(EngineError):  # a full disk: the next start offers the rest
                        await controller.engine.call(EndMoves(journal))
                await _follow_moves(controller, places)
    return _said(places, "moved" if move else "copied", failed)


FINISH, TAKE_BACK = 0, 1


async def offer_left(controller: Controller, choose: Callable[[str, list[str]], Awaitable[int | None]]) -> str:
    """Offer to finish or to take back the moves of a killed app; return a summary, or an empty string."""
    stopped = await controller.engine.call(FindMoves(interrupted=True))
    if stopped is None:
        return ""
    await _follow_moves(controller, {path: place for path, place, _ in stopped.photos})
    photos = count_of(len(stopped.photos), "photo")
    options = [f"move the other {len(stopped.rest):,}", f"take back {photos}", "leave them (u takes them back)"]
    total = len(stopped.photos) + len(stopped.rest)
    title = f"Moving {count_of(total, 'photo')} into {stopped.folder} was interrupted after {len(stopped.photos):,}"
    chosen = await choose(title, options)
    if chosen == FINISH:
        return await sort(controller, stopped.folder, stopped.rest, move=True, left=stopped)
    if chosen is not None:
        await controller.engine.call(EndMoves(stopped.journal))
    return await step_over(controller, _as_moves(stopped), undo=True) if chosen == TAKE_BACK else ""


async def take_back(controller: Controller, choose: Callable[[str, list[str]], Awaitable[int | None]]) -> str:
    """Offer to take back the last moves of an app that has ended; return a summary."""
    moves = await controller.engine.call(FindMoves(interrupted=False))
    if moves is None:
        return "nothing to undo"
    when = datetime.fromtimestamp(moves.time).astimezone()
    title = f"{count_of(len(moves.photos), 'photo')} moved into {moves.folder} on {when:%Y-%m-%d %H:%M}"
    if await choose(title, ["move them back", "leave them"]) != 0:
        return ""
    return await step_over(controller, _as_moves(moves), undo=True)


def _as_moves(moves: LeftMoves) -> Moves:
    return Moves(f"moved {count_of(len(moves.photos), 'photo')}", moves.journal, tuple(moves.photos))


async def step_over(controller: Controller, moves: Moves, *, undo: bool) -> str:
    """Undo or redo the move of photos; return a summary."""
    photos = [(place, path, twin) for path, place, twin in moves.photos[::-1]] if undo else moves.photos
    if undo:  # twins are copied from photos that are then moved back
        photos = sorted(photos, key=lambda photo: not photo[2])
    places: dict[str, str] = {}

    async def put(source: str, target: str, is_twin: bool) -> None:
        if source != target:
            await controller.engine.call(file_requests.MovePhoto(moves.journal, source, target, is_twin, undo))
        if is_twin and undo:
            controller.query.copy(source, target)
        places[source] = target

    async with controller.moving:
        try:
            failed = await _one_by_one(controller, places, photos, put, "Moving photos")
        finally:
            await _follow_moves(controller, places)
    if failed:
        return _said(places, "moved back" if undo else "moved", failed)
    return f"undone: {moves.said}   ctrl+r: redo" if undo else f"redone: {moves.said}   u: undo"


async def settle(controller: Controller) -> str:
    """Finish the moves of killed programs; return a summary, or an empty string if there were none."""
    places, lost = await controller.engine.call(file_requests.SettleMoves())
    controller.problems += [Problem(path, reason) for path, reason in lost]
    await _follow_moves(controller, places)
    if not places:
        return ""
    path, place = next(iter(places.items()))
    said = f"{count_of(len(places), 'photo')} restored after an interrupted move: {path} is now {place}"
    return said + ", …" * (len(places) > 1)


async def _one_by_one(
    controller: Controller,
    places: dict[str, str],
    photos: Sequence[tuple[Any, ...]],
    put: Callable[..., Awaitable[None]],
    what: str,
) -> int:
    """Place photos, each given by its path and other arguments of `put`, and return how many failed.

    `put` adds to `places`, which stays valid after a cancellation.
    """
    failed: list[Problem] = []

    async def place(photo: tuple[Any, ...]) -> None:
        try:
            await put(*photo)
        except EngineError as error:
            if error.code != NOT_PLACED:
                raise
            failed.append(Problem(photo[0], str(error)))

    try:
        for number, photo in enumerate(photos):
            controller.progress(what, number, len(photos))
            placing = asyncio.ensure_future(place(photo))
            try:
                await asyncio.shield(placing)
            finally:  # after a cancellation, still wait for the current photo
                await placing
    except EngineError:  # the engine may have died while moving a photo
        with contextlib.suppress(EngineError):
            places.update((await controller.engine.call(file_requests.SettleMoves()))[0])
        raise
    finally:
        controller.problems += failed
    return len(failed)


def _said(places: dict[str, str], what: str, failed: int) -> str:
    there = sum(path == place for path, place in places.items())
    others = f", {there} already there" * bool(there) + f", {failed} failed" * bool(failed)
    return f"{len(places) - there} {what}{others}"


async def _follow_moves(controller: Controller, places: dict[str, str]) -> None:
    """Update the paths of answers and examples. This is not an edit, since undo does not move the files."""
    files = {split_box(path)[0]: split_box(place)[0] for path, place in places.items()}

    def follow(path: str) -> str:
        file, box = split_box(path)
        if path in places or file not in files:
            return places.get(path, path)
        return box_name(str(files[file]), box) if box else str(files[file])

    def moved(support: Support) -> Support:
        return dataclasses.replace(support, path=Path(follow(str(support.path))))

    def followed(state: State) -> State:
        return dataclasses.replace(_with(state, moved), dropped=frozenset(map(follow, state.dropped)))

    if places:
        controller.follow(follow)
        controller.session.amend_all(followed)
        new = set(places.values())
        if any("reason" in answer for answer in controller.query.answers if answer["path"] in new):
            await controller.judge_again()  # they were classified during the move, at their old paths
    await controller.find_missing()
    await controller.sync()


def _with(state: State, change: Callable[[Support], Support]) -> State:
    classes = tuple(dataclasses.replace(entry, supports=tuple(map(change, entry.supports))) for entry in state.classes)
    return dataclasses.replace(state, classes=classes, others=tuple(map(change, state.others)))
