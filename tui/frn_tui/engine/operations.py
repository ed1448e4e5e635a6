"""What the engine can do, by the names of the protocol."""

from frn.inference.runtime import Device
from frn_tui.engine.embedding import Embedding
from frn_tui.engine.enrolled_classes import EnrolledClasses
from frn_tui.engine.exports import Exports
from frn_tui.engine.journal import Journal
from frn_tui.engine.listing import list_folder
from frn_tui.engine.locks import Locks
from frn_tui.engine.models import Models
from frn_tui.engine.previews import Pictures
from frn_tui.engine.projects import Projects, write_text
from frn_tui.engine.queries import Queries
from frn_tui.engine.scan import scan
from frn_tui.engine.worker_queues import Handler


def build_handlers(device: Device, app: int) -> dict[str, Handler]:
    """The operations over one model and its classes.

    Args:
        device: where networks run.
        app: process that the journal belongs to.
    """
    models = Models(device)
    embedding = Embedding(models)
    bank = EnrolledClasses(models, embedding)
    queries = Queries(models, embedding, bank)
    locks = Locks(app)
    projects = Projects(models, locks)
    journal = Journal(app)
    return {
        "scan": scan,
        "list": list_folder,
        "preview": Pictures(models).preview,
        "load": projects.load,
        "save": projects.save,
        "holder": locks.tell,
        "lock": locks.lock,
        "journal": journal.keep,
        "recover": journal.recover,
        "write": write_text,
        "open_model": models.open,
        "embed": embedding.embed,
        "classes": bank.adopt,
        "query": queries.query,
        "hide_and_test": queries.hide_and_test,
        "export": Exports(models, bank).export,
    }
