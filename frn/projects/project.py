"""Project files, `X.frn.json`: which photos make up which classes, and the model.

Projects contain no pixels or features. Paths are relative to the file and use `/`, so a project can be moved together
with its photos. A name that is not UTF-8 is stored in base64. Keys that this version does not know are kept when the
project is saved. Saving is atomic, keeps the previous version as `X.frn.json.bak`, and never overwrites changes that
another program has made.
"""

import base64
import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from frn.errors import FrnError, shorten
from frn.features.extractor import Extractor, Tta
from frn.images.transforms import EvaluationTransform
from frn.models.zoo import named_extractors
from frn.projects.session import ClassEntry, Find, ProjectHead, State, Support, check_name, check_threshold
from frn.ridge.parameters import HeadParameters
from frn.system.files import decode_json, read_regular, write_atomically

SUFFIX = ".frn.json"
PROJECT_FORMAT = "frn-project"
PROJECT_VERSION = 2  # version 2: the threshold is for `known`; in version 1, it was an explained share
MAX_PROJECT_BYTES = 256 << 20

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelReference:
    """The extractor that a project was made with."""

    id: str  # name in the model zoo, or path of an extractor or model
    sha256: str  # hash of the extractor's bytes
    preprocess: EvaluationTransform  # transform of its photos, for information only: the extractor contains its own
    tta: Tta = "none"  # test-time augmentation, which changes results

    @classmethod
    def of(cls, model: str, extractor: Extractor, folder: Path) -> "ModelReference":
        """Return how a project in `folder` refers to a model: by its name, or its path relative to that folder.

        Raises FrnError if the path is not valid text.
        """
        named = model in named_extractors()
        id_ = model if named else write_path(Path(model).absolute(), folder.absolute()).get("path")
        if id_ is None:
            raise FrnError(f"{model}: a project cannot refer to a model whose path is not valid text. Rename it.")
        return cls(id_, extractor.plain_sha256, extractor.transform, extractor.tta)

    def locate(self, folder: Path) -> str:
        """Return the model's name, or its path for a project in `folder`."""
        return self.id if self.id in named_extractors() else str(folder / self.id)

    def check(self, sha256: str, where: Path, name: str) -> None:
        """Raise FrnError if an extractor is not this project's: its features would not match the threshold and results.

        The message names both models and says what to do.
        """
        if sha256 != self.sha256:
            raise FrnError(
                f"{where}: was made with {self.id} ({self.sha256[:8]}), but {name} is a different model "
                f"({sha256[:8]}). "
                f"`frn enroll {where} --model {name} --replace --out {where}` enrolls it again with that model."
            )


@dataclass(frozen=True, slots=True)
class Project:
    """The content of a project file."""

    model: ModelReference
    state: State
    document: Document = field(default_factory=dict)  # what was read, also keys that are not known here
    stamp: bytes | None = None  # the file's bytes; None for a new project
    notes: tuple[str, ...] = ()  # what to report about the file as it was read


def is_project(path: Path) -> bool:
    """Return whether a path is that of a project file."""
    return path.name.lower().endswith(SUFFIX)


def load_project(path: Path) -> Project:
    """Read a project file.

    Raises FrnError if the file cannot be read, is damaged, has a newer version or is not a project.
    """
    data = read_regular(path, MAX_PROJECT_BYTES)
    try:
        document = decode_json(data)
    except FrnError as error:
        raise FrnError(f"{path}: is not a project: {error}.{_backup_hint(path)}") from error
    if not isinstance(document, dict) or document.get("format") != PROJECT_FORMAT:
        raise FrnError(f"{path}: is JSON, but not a project (its format is not {PROJECT_FORMAT!r})")
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        raise FrnError(f"{path}: is a project with an unknown version ({version!r}).{_backup_hint(path)}")
    if version > PROJECT_VERSION:
        raise FrnError(
            f"{path}: is a project of version {version}; this program reads up to {PROJECT_VERSION}. "
            "Install a newer frn."
        )
    try:
        model, state = _parse(document, path.parent)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else shorten(error)
        raise FrnError(f"{path}: is a damaged project ({reason}).{_backup_hint(path)}") from error
    notes = []
    if version < 2 and state.threshold is not None:
        notes.append(
            f"{path}: its threshold, {state.threshold:.0%} explained, is of an earlier version and not used. "
            "The threshold is now a probability, and calibrated; --threshold sets another one."
        )
        state = replace(state, threshold=None)
    return Project(model, state, document, data, tuple(notes))


def save_project(path: Path, project: Project, *, replace: bool = False) -> Project:
    """Write a project file and return the project as it is on disk.

    A file that this project was not read from is overwritten only with `replace`; the old file is always kept as
    `.bak`. Raises FrnError if another file exists, the file has changed since it was read, or it cannot be written.
    """
    if not is_project(path):
        raise FrnError(f"{path}: a project must end in {SUFFIX}")
    document = _document(project, path.parent)
    try:
        data = json.dumps(document, ensure_ascii=False, indent=1).encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can escape
        data = json.dumps(document, indent=1).encode()

    def keep_backup() -> None:  # inside the write: otherwise two programs could both find that no file exists
        current = read_regular(path, MAX_PROJECT_BYTES) if path.exists() else None
        if current is not None and current != project.stamp and not replace:
            changed = "was changed by another program" if project.stamp is not None else "already exists"
            raise FrnError(f"{path}: {changed}. Save under another name, or replace it (--replace).", code="exists")
        if current is not None and current != data:
            backup = path.with_name(path.name + ".bak")
            is_json = backup.is_file() and backup.read_bytes().startswith(b"{")
            write_atomically(backup, current, like=path, replace=is_json or None)

    write_atomically(path, data, check=keep_backup, replace=True)
    return Project(project.model, project.state, document, data)


def _document(project: Project, folder: Path) -> Document:
    """Return the project as JSON: known keys merged over those of the document it was read from."""
    old_model = {key: value for key, value in project.document.get("model", {}).items() if key != "tta"}
    old_classes = {entry.get("id"): entry for entry in project.document.get("classes", [])}
    old_others = {image.get("key"): image for image in project.document.get("others", [])}
    others = [_image_document(other, old_others.get(other.key, {}), folder) for other in project.state.others]
    classes = []
    for entry in project.state.classes:
        old = old_classes.get(entry.id, {})
        old_images = {image.get("key"): image for image in old.get("images", [])}
        images = [_image_document(support, old_images.get(support.key, {}), folder) for support in entry.supports]
        classes.append({**old, "id": entry.id, "name": entry.name, "images": images})
    return {
        **{key: value for key, value in project.document.items() if key != "find"},
        "format": PROJECT_FORMAT,
        "version": PROJECT_VERSION,
        "model": {
            **old_model,
            "id": project.model.id,
            "sha256": project.model.sha256,
            "preprocess": asdict(project.model.preprocess),
            **({"tta": project.model.tta} if project.model.tta != "none" else {}),
        },
        "threshold": project.state.threshold,
        **({"find": project.state.search} if project.state.search != "none" else {}),
        "next_id": project.state.next_id,
        "classes": classes,
        **({"others": others} if others or "others" in project.document else {}),
        **({"head": {"of": head.of, **asdict(head.head)}} if (head := project.state.head) else {}),
    }


def _image_document(support: Support, old: Mapping[str, Any], folder: Path) -> Document:
    kept = {key: value for key, value in old.items() if key not in ("path", "path_b64")}
    facts = {"key": support.key, "size": support.size, "mtime_ns": support.mtime_ns}
    return {**kept, **write_path(support.path, folder), **facts}


def write_path(path: Path, folder: Path) -> dict[str, str]:
    """Return a path as written in a project in `folder`: relative if possible, with `/`."""
    try:
        named = os.path.relpath(path, folder)
        if ".." in (*Path(named).parts, *path.parts):  # `..` leaves the target of a link, not the link
            real = os.path.realpath(path.parent)
            if os.path.realpath(folder / Path(named).parent) != real:
                named = os.path.relpath(Path(real, path.name), os.path.realpath(folder))
    except ValueError:  # another drive
        named = str(path.absolute())
    named = Path(named).as_posix()
    try:
        named.encode()
    except UnicodeEncodeError:
        return {"path_b64": base64.b64encode(os.fsencode(named)).decode()}
    return {"path": named}


def read_path(document: Mapping[str, Any], folder: Path) -> Path:
    """Return the path that `write_path` wrote."""
    encoded = document.get("path_b64")
    named = document["path"] if encoded is None else os.fsdecode(base64.b64decode(encoded, validate=True))
    if "\0" in named:
        raise ValueError("a path that contains a NUL character")
    os.fsencode(named)  # no file name has a lone surrogate: UnicodeEncodeError is a ValueError
    return folder / PurePosixPath(named)


def _parse(document: Document, folder: Path) -> tuple[ModelReference, State]:
    model = document["model"]
    if (tta := model.get("tta", "none")) not in get_args(Tta):
        raise ValueError(f"tta is {shorten(tta, 20)}")
    if (find := document.get("find", "none")) not in get_args(Find):
        raise ValueError(f"find is {shorten(find, 20)}")
    named, sha256 = _text(model["id"]), _text(model["sha256"])
    reference = ModelReference(named, sha256, EvaluationTransform(**model["preprocess"]), tta)
    classes = tuple(
        ClassEntry(
            int(entry["id"]),
            check_name(_text(entry["name"])),
            tuple(_parse_image(image, folder) for image in entry["images"]),
        )
        for entry in document["classes"]
    )
    _refuse_twins([entry.name for entry in classes], "classes called")
    _refuse_twins([entry.id for entry in classes], "classes with number")
    _refuse_twins([support.key for entry in classes for support in entry.supports], "images with key")
    others = tuple(_parse_image(image, folder) for image in document.get("others", []))
    _refuse_twins([other.key for other in others], "other images with key")
    threshold = document.get("threshold")
    next_id = max([0, *(entry.id for entry in classes)]) + 1
    return reference, State(
        classes,
        None if threshold is None else check_threshold(float(threshold)),
        max(next_id, int(document.get("next_id", 1))),
        others=others,
        search=find,
        head=_parse_head(document.get("head")),
    )


def _parse_head(document: object) -> ProjectHead | None:
    """Return the head that a project stores, or None: without a head of its own, one is chosen for its photos."""
    try:
        of, numbers = _text(document["of"]), {key: document[key] for key in document if key != "of"}  # type: ignore[index, attr-defined]
        return ProjectHead(of, HeadParameters.from_metadata(numbers))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _parse_image(document: Document, folder: Path) -> Support:
    path, key = read_path(document, folder), _text(document["key"])
    return Support(path, key, int(document["size"]), int(document["mtime_ns"]))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def _refuse_twins(values: list[Any], what: str) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            raise ValueError(f"it has two {what} {value!r}")


def _backup_hint(path: Path) -> str:
    backup = path.with_name(path.name + ".bak")
    return f" The previous version is {backup}." if backup.is_file() else ""
