"""Operations of the engine by protocol name."""

from functools import partial

from frn_tui.engine.classes.enrolled_classes import EnrolledClasses
from frn_tui.engine.classes.scoring import Queries, compare
from frn_tui.engine.files.bundles import unpack, write_bundle
from frn_tui.engine.files.journal import Journals, Locks
from frn_tui.engine.files.moves import settle_all
from frn_tui.engine.files.projects import Projects, export, write_text
from frn_tui.engine.files.scan import find_folders, list_folder, relocate, scan, stamp
from frn_tui.engine.files.sorting import move_photo, sort_photo
from frn_tui.engine.models import Models
from frn_tui.engine.pictures.previews import Previews
from frn_tui.engine.worker_queues import Handler


def build_handlers(app: int) -> dict[str, Handler]:
    """Return the operations on one model and its classes, for the app of this process."""
    models = Models()
    classes = EnrolledClasses(models)
    queries = Queries(models, classes)
    locks = Locks(app)
    projects = Projects(models, locks, classes)
    journals = Journals(app)
    return {
        "scan": scan,
        "list": list_folder,
        "folders": find_folders,
        "stamp": stamp,
        "preview": Previews(models).render,
        "load": projects.load,
        "save": projects.save,
        "holder": lambda request, job: locks.holder(request.path),
        "lock": locks.lock,
        "journal": journals.keep,
        "recover": journals.recover,
        "discard": journals.discard,
        "write": write_text,
        "sort": sort_photo,
        "move": move_photo,
        "settle": lambda request, job: settle_all(),
        "relocate": relocate,
        "bundle": partial(write_bundle, models),
        "unpack": unpack,
        "open_model": models.open,
        "embed": models.embed,
        "classes": classes.set_classes,
        "query": queries.query,
        "group": queries.group,
        "hide_and_test": queries.hide_and_test,
        "compare": compare,
        "export": partial(export, classes),
    }
