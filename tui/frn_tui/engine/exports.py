"""The classes as a file for other programs: a whole classifier in ONNX, or the numbers of its classes."""

import io
from pathlib import Path

import numpy as np

from frn.errors import FrnError
from frn.files import write_atomically
from frn_tui.engine.enrolled_classes import EnrolledClasses
from frn_tui.engine.models import Models
from frn_tui.engine.projects import refuse_overwriting
from frn_tui.engine.worker_queues import Request

WHAT = ("classifier", "bank")


class Exports:
    """Exports the classes in use."""

    def __init__(self, models: Models, bank: EnrolledClasses) -> None:
        self._models = models
        self._bank = bank

    def export(self, request: Request) -> dict[str, object]:
        """Write `classifier.onnx` or, with {"what": "bank"}, an .npz of the classes' rows."""
        path = Path(request.text("path"))
        what = request.arguments.get("what", WHAT[0])
        if what not in WHAT:
            raise FrnError(f"export: what should be one of {', '.join(WHAT)}, not {what!r}")
        refuse_overwriting(path, replace=request.flag("replace"))
        data = self._bank_file() if what == "bank" else self._classifier_file()
        request.check()
        write_atomically(path, data)
        return {"path": str(path), "bytes": len(data)}

    def _classifier_file(self) -> bytes:
        from frn_export.classifier import classifier_graph  # here: few sessions export

        classes = self._bank.current
        named = zip(classes.entries, classes.members, strict=True)
        graph = classifier_graph(
            self._models.model.extractor.data,
            {entry.name: member.enrolled for entry, member in named},
            threshold=classes.threshold,
            gamma=classes.head.gamma,
        )
        data: bytes = graph.SerializeToString(deterministic=True)
        return data

    def _bank_file(self) -> bytes:
        classes = self._bank.current
        names = np.array([entry.name for entry in classes.entries])
        file = io.BytesIO()
        np.savez(file, rows=classes.bank.rows, signs=classes.bank.signs, starts=classes.bank.starts, names=names)
        return file.getvalue()
