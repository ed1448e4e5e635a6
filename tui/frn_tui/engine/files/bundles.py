"""Bundles: a project with its photos in one folder or zip, which opens on any machine.

A bundle contains `NAME.frn.json`, a folder of photos for each class, and the model if it is not a shipped one.
"""

import os
import shutil
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO

from frn.errors import FrnError, shorten
from frn.features.feature_cache import content_key
from frn.images.boxes import box_name, split_box
from frn.images.opening import read_file
from frn.models.zoo import EXTRACTOR, HEAD_FILE, is_exported, shipped_extractors
from frn.projects.folder_tree import looks_like_image
from frn.projects.project import SUFFIX, ModelReference, Project, is_project, load_project, save_project
from frn.projects.session import ClassEntry, State, Support
from frn.system.archives import DAMAGE, MAX_ARCHIVE, Limits, open_zip
from frn.system.file_sets import new_folder
from frn.system.files import replacing, require_regular, write_atomically
from frn_tui.client.file_requests import UnpackBundle, WriteBundle
from frn_tui.client.protocol import EXISTS
from frn_tui.engine.files.placing import fresh_name, safe_name
from frn_tui.engine.files.scan import is_bundle
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Job


def write_bundle(models: Models, request: WriteBundle, job: Job) -> None:
    """Write a bundle completely or not at all. Raises FrnError if a photo is missing or has changed."""
    path = Path(request.path)
    zipped = is_bundle(path.name)
    if path.exists() and not (zipped and request.replace and path.is_file()):
        code = EXISTS if zipped and path.is_file() else ""
        raise FrnError(f"{path}: already exists. Choose another name.", code=code)
    if not zipped:
        with new_folder(path) as home:
            _fill(home, path.name, models, request.state, job)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(prefix=".bundle-", dir=path.parent) as home,
            replacing(path, replace=request.replace) as packed,
        ):
            folder = Path(home) / path.stem
            _fill(folder, path.stem, models, request.state, job)
            _zip(folder, packed, job)
    except OSError as error:
        raise FrnError(f"{path}: cannot be written ({error.strerror or error})") from error


def _fill(folder: Path, name: str, models: Models, state: State, job: Job) -> None:
    names: set[str] = set()
    total = sum(len(entry.supports) for entry in state.classes)
    classes, done = [], 0
    others = [ClassEntry(0, "none of these", state.others)] if state.others else []
    for entry in (*state.classes, *others):
        home = folder / fresh_name(safe_name(entry.name), names)
        home.mkdir(parents=True)
        classes.append(_copy(entry, home, job, whole=state.search != "none"))
        done += len(entry.supports)
        job.progress(done, total)
    if others:
        state = replace(state, others=classes.pop().supports)
    project = Project(_carry(models, folder), replace(state, classes=tuple(classes)))
    save_project(folder / f"{name}{SUFFIX}", project)


def unpack(request: UnpackBundle, job: Job) -> str:
    """Unpack a bundle's project, photos and model, completely or not at all; other entries are ignored.

    Raises FrnError if it is not a bundle, or has paths that lead out of its folder.
    """
    folder = Path(request.folder)
    if folder.exists():
        raise FrnError(f"{folder}: already exists. Choose a folder that does not exist yet.", code=EXISTS)
    path = require_regular(Path(request.path), MAX_ARCHIVE)
    try:
        with open_zip(path) as archive, new_folder(folder) as home:
            project = _check(archive, path, folder.parent)
            _extract(archive, project, project, home)
            wanted = _members(load_project(home / project.name), home, archive, project.parent)
            for done, member in enumerate(wanted, 1):
                job.check()
                _extract(archive, member, project, home)
                job.progress(done, len(wanted))
    except FrnError:
        raise
    except DAMAGE as error:
        raise FrnError(f"{path}: cannot be unpacked ({shorten(error)})") from error
    return str(folder / project.name)


def _members(project: Project, home: Path, archive: zipfile.ZipFile, top: PurePosixPath) -> list[PurePosixPath]:
    """Return the entries that a bundle's project uses: photos, also by name, and a model; never hidden entries."""
    groups = (*(entry.supports for entry in project.state.classes), project.state.others)
    photos = [split_box(support.path)[0] for group in groups for support in group]
    model = Path(project.model.locate(home))
    models = [model.with_name(HEAD_FILE), model] if is_exported(model) else []
    named = [*(photo for photo in photos if looks_like_image(photo.name)), *models]
    inside = [Path(os.path.normpath(path)) for path in named]
    names = [path.relative_to(home) for path in inside if path.is_relative_to(home)]
    there = set(archive.namelist())
    members = dict.fromkeys(top / name.as_posix() for name in names if not any(part[0] == "." for part in name.parts))
    return [member for member in members if str(member) in there]


def _extract(archive: zipfile.ZipFile, member: PurePosixPath, project: PurePosixPath, home: Path) -> None:
    target = home / member.relative_to(project.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(str(member)) as source, target.open("xb") as file:
        shutil.copyfileobj(source, file)


def _copy(entry: ClassEntry, home: Path, job: Job, *, whole: bool) -> ClassEntry:
    """Copy a class's photos to the folder `home`, and return the class with the copies.

    Of a box, only the box is copied or, with `whole`, its whole photo, which is searched for its subject.
    """
    names: set[str] = set()
    copies = []
    for support in entry.supports:
        job.check()
        data = read_file(support.path)
        if content_key(data) != support.key:
            raise FrnError(f"{support.path}: has changed since it was added. Remove it and add it again.")
        file, box = split_box(support.path)
        is_part = box is not None and not whole
        copy = home / fresh_name(safe_name(f"{file.stem}.png" if is_part else file.name), names)
        copy.write_bytes(read_file(file) if box and whole else data)
        copies.append(Support.of(Path(box_name(str(copy), box)) if box and whole else copy, support.key))
    return replace(entry, supports=tuple(copies))


def _carry(models: Models, folder: Path) -> ModelReference:
    """Return the bundle's reference to its model; a model that is not shipped is included."""
    extractor = models.extractor
    if models.name in shipped_extractors():
        return ModelReference.of(models.name, extractor, folder)
    write_atomically(folder / EXTRACTOR, extractor.data)
    if models.other and models.other.graph:
        write_atomically(folder / HEAD_FILE, models.other.graph)
    return ModelReference(EXTRACTOR, extractor.plain_sha256, extractor.transform, extractor.tta)


def _zip(folder: Path, packed: IO[bytes], job: Job) -> None:
    """Put a folder into a zip under its own name, without compression, since photos are already compressed."""
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            job.check()
            if path.is_file():
                archive.write(path, path.relative_to(folder.parent).as_posix())


def _check(archive: zipfile.ZipFile, path: Path, folder: Path) -> PurePosixPath:
    """Return the project in a bundle, after checking its size."""
    projects = [PurePosixPath(name) for name in archive.namelist() if is_project(Path(name))]
    if len(projects) != 1 or len(projects[0].parts) > 2:
        raise FrnError(f"{path}: is not a bundle: it should contain one project ({SUFFIX}), not {len(projects)}")
    limits = Limits(path, path.stat().st_size)
    for member in archive.infolist():
        limits.check(member.filename, member.file_size)
    free = shutil.disk_usage(folder).free
    if limits.size > free:
        raise FrnError(f"{path}: needs {limits.size >> 20:,} MiB, but {folder} has {free >> 20:,} MiB free")
    return projects[0]
