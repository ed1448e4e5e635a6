"""Project files, results and exports, read and written without losing anyone's data."""

import io
from pathlib import Path

import numpy as np

from frn.errors import FrnError
from frn.inference.classifier import Classifier
from frn.inference.feature_cache import FeatureStore
from frn.inference.project import ModelReference, Project, load_project, save_project
from frn.inference.session import State
from frn.system.files import write_atomically
from frn_tui.client.file_requests import ExportClasses, Loaded, LoadProject, SaveProject, WriteText
from frn_tui.client.protocol import EXISTS, MIRROR, OPEN_ELSEWHERE
from frn_tui.engine.classes.enrolled_classes import EnrolledClasses
from frn_tui.engine.files.locks import Locks
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Job


class Projects:
    """Loads and saves projects, and remembers those it has read so that unknown keys are kept."""

    def __init__(self, models: Models, locks: Locks) -> None:
        self._models, self._locks = models, locks
        self._known: dict[Path, Project] = {}
        self._last: Project | None = None

    def load(self, request: LoadProject, job: Job) -> Loaded:
        path = Path(request.path)
        project = load_project(path)
        self._note(path, project)
        model = project.model.locate(path.parent) + (MIRROR if project.model.tta == "hflip" else "")
        return Loaded(project.state, model, project.model.sha256)

    def save(self, request: SaveProject, job: Job) -> None:
        """Write a project file; saved under another name, it keeps its unknown keys."""
        path = Path(request.path)
        if (holder := self._locks.holder(str(path))) is not None:
            raise FrnError(
                f"{path}: is open in another frn-tui (process {holder}). Save under another name.", code=OPEN_ELSEWHERE
            )
        state = request.state
        model = self._models.model
        reference = ModelReference.of(model.name, model.extractor, path.parent)
        known = self._known.get(path.absolute())
        origin = known or self._last
        document = origin.document if origin else {}
        stamp = known.stamp if known else None
        saved = save_project(path, Project(reference, state, document, stamp), replace=request.replace)
        self._note(path, saved)

    def _note(self, path: Path, project: Project) -> None:
        self._known[path.absolute()] = self._last = project


class Exports:
    """Exports the current classes for other programs: a whole classifier in ONNX, or arrays of its classes."""

    def __init__(self, models: Models, classes: EnrolledClasses) -> None:
        self._models = models
        self._classes = classes

    def export(self, request: ExportClasses, job: Job) -> None:
        path = Path(request.path)
        if request.what == "page":
            self._write_page(path, replace=request.replace)
            return
        refuse_overwriting(path, replace=request.replace)
        is_half = request.what == "half"
        data = self._arrays_file() if request.what == "arrays" else self._classifier_file(in_half=is_half)
        job.check()
        write_atomically(path, data)

    def _write_page(self, folder: Path, *, replace: bool) -> None:
        from frn_export.web.runtime import find_runtime  # imported here because few sessions export
        from frn_export.web.write import write_page

        classes = self._classes.current
        classifier = Classifier(self._models.model.extractor, FeatureStore())
        classifier.enroll_state(State(classes.entries, None if classes.rule.weight else classes.rule.least))
        write_page(classifier, folder, find_runtime(None), replace=replace)

    def _classifier_file(self, *, in_half: bool) -> bytes:
        from frn_export.graphs.classifier import classifier_graph
        from frn_export.quantise import half

        classes, features = self._classes.current, self._models.model.extractor.data
        named = zip(classes.entries, classes.members, strict=True)
        graph = classifier_graph(
            half(features) if in_half else features,
            {entry.name: member.enrolled for entry, member in named},
            rule=classes.rule,
            gamma=classes.head.gamma,
        )
        data: bytes = graph.SerializeToString(deterministic=True)
        return data

    def _arrays_file(self) -> bytes:
        classes = self._classes.current
        names = np.array([entry.name for entry in classes.entries])
        enrolled = classes.bank.classes
        rows = np.concatenate([each.rows for each in enrolled])
        signs = np.concatenate([each.signs for each in enrolled])
        starts = np.cumsum([0, *(len(each.rows) for each in enrolled[:-1])])
        file = io.BytesIO()
        np.savez(file, rows=rows, signs=signs, starts=starts, names=names)
        return file.getvalue()


def write_text(request: WriteText, job: Job) -> None:
    """Write results; file names that are not UTF-8 are written as their bytes."""
    path = Path(request.path)
    data = request.text.encode("utf-8", "surrogateescape")
    refuse_overwriting(path, replace=request.replace)
    write_atomically(path, data)


def refuse_overwriting(path: Path, *, replace: bool) -> None:
    """Raise FrnError if a path is a folder, or an existing file without `replace`."""
    try:
        is_folder, is_there = path.is_dir(), path.exists()
    except (OSError, ValueError) as error:
        raise FrnError(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error})") from error
    if is_folder:
        raise FrnError(f"{path}: is a folder; name a file in it")
    if is_there and not replace:
        raise FrnError(f"{path}: already exists. Choose another name, or replace it.", code=EXISTS)
