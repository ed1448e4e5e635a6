"""Operations of the engine by protocol name."""

from functools import partial

from frn_tui.engine.classes.enrolled_classes import EnrolledClasses
from frn_tui.engine.classes.scoring import advice, explain_photo, group_photos, query
from frn_tui.engine.files.bundles import unpack, write_bundle
from frn_tui.engine.files.journal import RunningApp
from frn_tui.engine.files.moves import find_left, settle_all
from frn_tui.engine.files.projects import Projects, export, write_text
from frn_tui.engine.files.scan import find_folders, list_folder, relocate, scan, stamp
from frn_tui.engine.files.sorting import end_moves, move_photo, plan_moves, sort_photo
from frn_tui.engine.models import Models
from frn_tui.engine.pictures.previews import Previews
from frn_tui.engine.worker_queues import Handler


def build_handlers(app: int, started: int = 0) -> dict[str, Handler]:
    """Return the operations on one model and its classes, for the app of this process."""
    models = Models()
    classes = EnrolledClasses(models)
    running = RunningApp(app, started)
    projects = Projects(models, running, classes)
    return {
        "scan": scan,
        "list": list_folder,
        "folders": find_folders,
        "stamp": stamp,
        "preview": Previews(models).render,
        "load": projects.load,
        "save": projects.save,
        "holder": lambda request, job: running.holder(request.path),
        "lock": running.lock,
        "journal": running.keep,
        "recover": running.recover,
        "discard": running.discard,
        "write": write_text,
        "sort": sort_photo,
        "move": move_photo,
        "settle": lambda request, job: settle_all(),
        "plan": plan_moves,
        "end": end_moves,
        "left": lambda request, job: find_left(interrupted=request.interrupted),
        "relocate": relocate,
        "bundle": partial(write_bundle, models),
        "unpack": unpack,
        "open_model": models.open,
        "embed": models.embed,
        "classes": classes.set_classes,
        "choose_search": classes.choose_search,
        "query": partial(query, classes),
        "advise": partial(advice, classes),
        "explain": partial(explain_photo, classes),
        "group": partial(group_photos, models),
        "export": partial(export, classes),
    }
