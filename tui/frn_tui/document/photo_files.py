"""The files of photos: found again after they were moved, bundled with the project, sorted into folders."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from frn.inference.session import State, Support
from frn_tui.client import file_requests
from frn_tui.client.serialization import state_to_json, support_from_json
from frn_tui.document.controller import Controller
from frn_tui.document.queries import Problem, ShowProgress
from frn_tui.document.synced_document import told_to


async def relocate(controller: Controller, folder: str, progress: ShowProgress) -> tuple[int, int]:
    """Find missing examples by their content, in a folder and below: how many were, and how many there are."""
    state, missing = controller.session.state, controller.missing
    sizes = {s.key: s.size for entry in state.classes for s in entry.supports if str(s.path) in missing}
    request = file_requests.RelocatePhotos(folder, sizes)
    outcome = await controller.engine.call(request, told_to("Looking for photos", progress))
    found = {key: support_from_json(support) for key, support in outcome["found"].items()}
    if found:
        session = controller.session
        session.replace_state(_with(session.state, lambda support: found.get(support.key, support)))
    await controller.find_missing()
    await controller.sync(progress)
    return len(found), len(sizes)


async def bundle(controller: Controller, path: str, progress: ShowProgress, *, replace: bool = False) -> None:
    """Write the project and its photos into one folder or zip."""
    async with controller.own_model():
        request = file_requests.WriteBundle(path, state_to_json(controller.session.state), replace)
    # Outside: whoever opens another model now waits behind it in the engine's queue.
    await controller.engine.call(request, told_to("Bundling photos", progress))


async def sort(
    controller: Controller, folder: str, photos: Sequence[tuple[str, str]], *, move: bool, progress: ShowProgress
) -> str:
    """Copy photos into a folder for each verdict, or move them; what came of it, in words.

    One after another: where it is cancelled, those that were moved by then are followed.
    """
    places: dict[str, str] = {}
    failed: list[tuple[str, str]] = []
    # Of all classes: of two whose names make one folder's the same gets it, whichever photos are sorted.
    verdicts = tuple(dict.fromkeys([*controller.names.values(), *(verdict for _, verdict in photos)]))

    async def put(photo: tuple[str, str]) -> None:
        done = await controller.engine.call(file_requests.SortPhotos(folder, [photo], move, verdicts))
        places.update(done["places"])
        failed.extend(done["failed"])

    try:
        for done, photo in enumerate(photos):
            progress("Sorting photos", done, len(photos))
            putting = asyncio.ensure_future(put(photo))
            try:
                await asyncio.shield(putting)
            finally:  # also who cancels waits for the one that is on its way
                await putting
    finally:
        if move:
            controller.query.moved(places)
            await _follow_moves(controller, places)
        controller.problems += [Problem(path, reason) for path, reason in failed]
        controller.listener()
    said = f"{len(places)} {'moved' if move else 'copied'}"
    return f"{said}, {len(failed)} could not be" if failed else said


async def _follow_moves(controller: Controller, places: dict[str, str]) -> None:
    """Examples are where their files are now; not an edit, as undo moves no file."""

    def moved(support: Support) -> Support:
        return dataclasses.replace(support, path=Path(places.get(str(support.path), support.path)))

    def followed(state: State) -> State:
        is_touched = any(str(support.path) in places for entry in state.classes for support in entry.supports)
        return _with(state, moved) if is_touched else state

    controller.session.amend_all(followed)
    await controller.find_missing()
    await controller.sync()


def _with(state: State, change: Callable[[Support], Support]) -> State:
    classes = tuple(dataclasses.replace(entry, supports=tuple(map(change, entry.supports))) for entry in state.classes)
    return dataclasses.replace(state, classes=classes)
