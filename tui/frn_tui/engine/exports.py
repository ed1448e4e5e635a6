"""The classes as a file for other programs: a whole classifier in ONNX, or the numbers of its classes."""

import io
from pathlib import Path

import numpy as np

from frn.files import write_atomically
from frn_tui.engine.enrolled_classes import EnrolledClasses
from frn_tui.engine.models import Models
from frn_tui.engine.projects import refuse_overwriting
from frn_tui.engine.worker_queues import Job
from frn_tui.protocol import ExportClasses, Nothing


class Exports:
    """Exports the classes in use."""

    def __init__(self, models: Models, classes: EnrolledClasses) -> None:
        self._models = models
        self._classes = classes

    def export(self, request: ExportClasses, job: Job) -> Nothing:
        """Write the whole classifier, or an .npz of the classes' rows."""
        path = Path(request.path)
        refuse_overwriting(path, replace=request.replace)
        data = self._arrays_file() if request.what == "arrays" else self._classifier_file()
        job.check()
        write_atomically(path, data)
        return {}

    def _classifier_file(self) -> bytes:
        from frn_export.classifier import classifier_graph  # here: few sessions export

        classes = self._classes.current
        named = zip(classes.entries, classes.members, strict=True)
        graph = classifier_graph(
            self._models.model.extractor.data,
            {entry.name: member.enrolled for entry, member in named},
            threshold=classes.threshold,
            gamma=classes.head.gamma,
        )
        data: bytes = graph.SerializeToString(deterministic=True)
        return data

    def _arrays_file(self) -> bytes:
        classes = self._classes.current
        names = np.array([entry.name for entry in classes.entries])
        file = io.BytesIO()
        np.savez(file, rows=classes.bank.rows, signs=classes.bank.signs, starts=classes.bank.starts, names=names)
        return file.getvalue()
