"""Operations on photo files: relocate moved ones, bundle them with the project, sort them into folders."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from frn.inference.session import Moves, State, Support
from frn_tui.client import file_requests
from frn_tui.client.protocol import EngineError, Request
from frn_tui.document.controller import Controller
from frn_tui.document.queries import Problem, ShowProgress
from frn_tui.document.synced_document import told_to
from frn_tui.terminal.text import count_of


async def relocate(controller: Controller, folder: str, progress: ShowProgress) -> tuple[int, int]:
    """Find missing examples by content in a folder and its subfolders; return how many were found and missing."""
    state, missing = controller.session.state, controller.missing
    sizes = {s.key: s.size for entry in state.classes for s in entry.supports if str(s.path) in missing}
    request = file_requests.RelocatePhotos(folder, sizes)
    found = await controller.engine.call(request, told_to("Looking for photos", progress))
    if found:
        session = controller.session
        session.replace_state(_with(session.state, lambda support: found.get(support.key, support)))
        session.name_act(f"found {count_of(len(found), 'photo')}")
    await controller.find_missing()
    await controller.sync(progress)
    return len(found), len(sizes)


async def bundle(controller: Controller, path: str, progress: ShowProgress, *, replace: bool = False) -> None:
    """Write the project and its photos to one folder or zip."""
    async with controller.own_model():
        request = file_requests.WriteBundle(path, controller.session.state, replace)
    # Released here: opening another model now waits in the engine's queue.
    await controller.engine.call(request, told_to("Bundling photos", progress))


async def sort(
    controller: Controller, folder: str, photos: Sequence[tuple[str, str]], *, move: bool, progress: ShowProgress
) -> str:
    """Copy photos to one folder per verdict, or move them, which can be undone; return a summary."""
    # Verdicts of all classes: if two share a folder name, the folders do not depend on which photos are sorted.
    verdicts = tuple(dict.fromkeys([*controller.names.values(), *(verdict for _, verdict in photos)]))
    done = _nothing_done()

    def request(photo: tuple[str, str]) -> file_requests.SortPhotos:
        return file_requests.SortPhotos(folder, [photo], move, verdicts, done["journal"])

    try:
        await _one_by_one(controller, done, map(request, photos), len(photos), "Sorting photos", progress)
    finally:
        if move:
            if moved := [(path, place, path in done["twins"]) for path, place in done["places"].items()]:
                said = f"moved {count_of(len(moved), 'photo')}"
                controller.session.note_moves(Moves(said, done["journal"], tuple(moved)))
            await _follow_moves(controller, done["places"])
        _tell_failures(controller, done)
    return _said(done, "moved" if move else "copied")


async def step_over(controller: Controller, moves: Moves, progress: ShowProgress, *, undo: bool) -> str:
    """Undo or redo the move of photos; return a summary."""
    done, photos = _nothing_done(), moves.photos[::-1] if undo else moves.photos
    requests = (file_requests.MovePhotos(moves.journal, [photo], undo) for photo in photos)
    try:
        await _one_by_one(controller, done, requests, len(photos), "Moving photos", progress)
    finally:
        await _follow_moves(controller, done["places"])
        _tell_failures(controller, done)
    if done["failed"]:
        return _said(done, "moved back" if undo else "moved")
    return f"undone: {moves.said}   ctrl+r: redo" if undo else f"redone: {moves.said}   u: undo"


async def settle(controller: Controller) -> str:
    """Finish the moves of killed programs; return a summary, or an empty string if there were none."""
    done = await controller.engine.call(file_requests.SettleMoves())
    await _follow_moves(controller, done["places"])
    _tell_failures(controller, done)
    count = count_of(len(done["places"]), "photo")
    return f"{count} restored after an interrupted move: {_first(done['places'])}" if done["places"] else ""


def _first(places: dict[str, str]) -> str:
    path, place = next(iter(places.items()))
    return f"{path} is now {place}{', …' if len(places) > 1 else ''}"


def _nothing_done() -> file_requests.SortedPhotos:
    return {"places": {}, "failed": [], "twins": [], "journal": ""}


async def _one_by_one(
    controller: Controller,
    done: file_requests.SortedPhotos,
    requests: Iterable[Request[file_requests.SortedPhotos]],
    count: int,
    what: str,
    progress: ShowProgress,
) -> None:
    """Send one request per photo and collect the results in `done`, which stays valid after a cancellation."""

    async def put(request: Request[file_requests.SortedPhotos]) -> None:
        came = await controller.engine.call(request)
        done["places"].update(came["places"])
        done["failed"].extend(came["failed"])
        done["twins"].extend(came["twins"])
        done["journal"] = came["journal"]

    try:
        for number, request in enumerate(requests):
            progress(what, number, count)
            putting = asyncio.ensure_future(put(request))
            try:
                await asyncio.shield(putting)
            finally:  # after a cancellation, still wait for the current photo
                await putting
    except EngineError:  # the engine may have died while moving a photo
        with contextlib.suppress(EngineError):
            done["places"].update((await controller.engine.call(file_requests.SettleMoves()))["places"])
        raise


def _said(done: file_requests.SortedPhotos, what: str) -> str:
    said = f"{len(done['places'])} {what}"
    return f"{said}, {len(done['failed'])} failed" if done["failed"] else said


def _tell_failures(controller: Controller, done: file_requests.SortedPhotos) -> None:
    controller.problems += [Problem(path, reason) for path, reason in done["failed"]]
    controller.listener()


async def _follow_moves(controller: Controller, places: dict[str, str]) -> None:
    """Update the paths of answers and examples. This is not an edit, since undo does not move the files."""
    controller.query.moved(places)

    def moved(support: Support) -> Support:
        return dataclasses.replace(support, path=Path(places.get(str(support.path), support.path)))

    def followed(state: State) -> State:
        examples = (support for entry in state.classes for support in entry.supports)
        is_touched = any(str(support.path) in places for support in (*examples, *state.others))
        dropped = frozenset(places.get(path, path) for path in state.dropped)
        if not is_touched and dropped == state.dropped:
            return state
        return dataclasses.replace(_with(state, moved), dropped=dropped)

    controller.session.amend_all(followed)
    await controller.find_missing()
    await controller.sync()


def _with(state: State, change: Callable[[Support], Support]) -> State:
    classes = tuple(dataclasses.replace(entry, supports=tuple(map(change, entry.supports))) for entry in state.classes)
    return dataclasses.replace(state, classes=classes, others=tuple(map(change, state.others)))
