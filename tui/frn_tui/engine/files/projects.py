"""Project files, results and exports, read and written without losing anyone's data."""

import contextlib
from dataclasses import replace
from pathlib import Path

from frn.errors import FrnError
from frn.estimator.loading import classifier_file
from frn.projects.project import ModelReference, Project, load_project, save_project
from frn.system.files import require_writable, write_atomically
from frn_tui.client.file_requests import ExportClasses, Loaded, LoadProject, SaveProject, WriteText
from frn_tui.client.protocol import OPEN_ELSEWHERE, SUFFIXES
from frn_tui.engine.classes.enrolled_classes import EnrolledClasses
from frn_tui.engine.files.journal import RunningApp
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Job


class Projects:
    """Loads and saves projects, and remembers them so that unknown keys are kept."""

    def __init__(self, models: Models, app: RunningApp, classes: EnrolledClasses) -> None:
        self._models, self._app, self._classes = models, app, classes
        self._known: dict[Path, Project] = {}  # projects that were loaded or saved

    def load(self, request: LoadProject, job: Job) -> Loaded:
        path = Path(request.path)
        project = load_project(path)
        self._known[path] = project
        model = project.model.locate(path.parent) + SUFFIXES[project.model.tta]
        return Loaded(project.state, model, project.model.sha256, self._models.has_changed, project.notes)

    def save(self, request: SaveProject, job: Job) -> None:
        """Write a project file; saved under another name, it keeps its unknown keys."""
        path, state = Path(request.path), request.state
        if (holder := self._app.holder(str(path))) is not None:
            raise FrnError(
                f"{path}: is open in another frn-tui (process {holder}). Save under another name.", code=OPEN_ELSEWHERE
            )
        reference = ModelReference.of(self._models.name, self._models.extractor, path.parent)
        origin = self._known.get(Path(request.origin)) if request.origin else None
        if request.origin and origin is None:  # this engine did not load it: it replaces one that crashed
            with contextlib.suppress(FrnError):
                origin = replace(load_project(Path(request.origin)), stamp=None)
        document, state = origin.document if origin else {}, replace(state, head=self._classes.head_for(state))
        stamp = origin.stamp if origin and request.origin == request.path else None
        self._known[path] = save_project(path, Project(reference, state, document, stamp), replace=request.replace)
        self._app.name_project(request.path)


def export(classes: EnrolledClasses, request: ExportClasses, job: Job) -> str:
    """Write the current classes for other programs, and return what they still need."""
    path, classifier = Path(request.path), classes.current
    searches = classifier.state.search != "none"
    if request.what == "page":
        from frn_export.web.runtime import find_runtime, missing_runtime  # imported here because few sessions export
        from frn_export.web.write import write_page

        runtime = find_runtime(path)
        write_page(classifier, path, runtime, replace=request.replace)
        best = [f"{path}: shows only the best subject of each photo"] * (classifier.state.search == "all")
        return "   ".join(best + [missing_runtime(path)] * (runtime is None))
    files = [path, path.with_name("finder.onnx")][: 1 + searches]
    for file in files:
        require_writable(file, replace=request.replace)
    contents = [classifier_file(classifier)]
    if searches:
        from frn_export.graphs.finder import finder_graph

        contents.append(
            finder_graph(classifier.finder, classifier.classes, classifier.sought.weights).SerializeToString(
                deterministic=True
            )
        )
    for file, data in zip(files, contents, strict=True):
        job.check()
        write_atomically(file, data, replace=request.replace)
    if not searches:
        return ""
    return f"{path}: classifies a subject, which finder.onnx beside it finds. The README of `frn export` has the lines."


def write_text(request: WriteText, job: Job) -> None:
    """Write results; file names that are not UTF-8 are written as their bytes."""
    path = Path(request.path)
    require_writable(path, replace=request.replace)
    write_atomically(path, request.text.encode("utf-8", "surrogateescape"), replace=request.replace)
