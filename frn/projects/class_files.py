"""The classes in a path: a folder or zip of class folders, a table, a project, or the export of another tool.

Commands, library and app all call `class_files`. Classes of folders and tables are in natural order (2 before 10), and
so are the photos of a folder; a project keeps its own order.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from frn.errors import FrnError
from frn.projects.class_table import is_table, metadata_table, read_table
from frn.projects.folder_tree import DEEPEST, Broken, Check, ClassTree, class_tree, is_name, list_tree
from frn.projects.names import is_no_class, natural_order
from frn.projects.other_tools import find_annotations, is_annotation_file, read_annotations
from frn.projects.project import Project, is_project, load_project
from frn.projects.session import check_name
from frn.system.files import is_folder


@dataclass
class ClassFiles:
    """The photos of each class, and where they come from."""

    members: dict[str, list[Path]]  # photos of each class; a box is named like a photo (`frn.images.boxes`)
    others: list[Path] = field(default_factory=list)  # photos that belong to none of the classes
    loose: list[Path] = field(default_factory=list)  # photos beside the class folders
    skipped: list[str] = field(default_factory=list)  # a sentence for each file or row that was skipped
    notes: list[str] = field(default_factory=list)  # other remarks on the classes
    project: Project | None = None
    model: str | None = None  # the project's model, in the form that `load_extractor` accepts

    @property
    def with_others(self) -> dict[str, list[Path]]:
        """The photos of each class, and those that belong to no class under a name that says so."""
        return self.members | ({"unknown": self.others} if self.others else {})


def is_file_of_classes(path: Path) -> bool:
    """Return whether a file name has the suffix of a project, a table, a zip or an export of another tool."""
    return is_project(path) or is_table(path) or path.suffix.lower() == ".zip" or is_annotation_file(path)


def class_files(
    path: Path, level: int | None = None, check: Check = lambda: None, *, needed: bool = True
) -> ClassFiles:
    """Return the photos of each class in a folder, zip, CSV, project, or export of another tool.

    Args:
        path: where the classes are.
        level: level of the class folders, 1 or 2, if a folder or zip has two levels of names.
        check: called often; may raise to stop.
        needed: whether a folder or zip without class folders is an error; otherwise its photos are `loose`.

    Raises FrnError if it cannot be read or has no classes, and TwoLevelsError if it needs a `level`.
    """
    listed = _listed(path)
    return _from_tree(path, class_tree(path, level, check), needed=needed) if listed is None else listed


def readings(path: Path, check: Check = lambda: None) -> dict[int, ClassFiles]:
    """Return the classes in a path for each level of folders that gives different ones; with `DEEPEST`, of any level.

    There is a choice only if folders without photos of their own have several folders that may be named after classes.
    Raises FrnError as `class_files`, never TwoLevelsError.
    """
    if (listed := _listed(path)) is not None:
        return {1: listed}
    files = list_tree(path, check)
    tree = class_tree(path, 1, check, files)
    by_level = {1: _from_tree(path, tree, needed=False)}
    for level in (DEEPEST, 2) if tree.is_nested else ():
        read = _from_tree(path, class_tree(path, level, check, files), needed=False)
        are_names = level == DEEPEST or all(is_name(name, has_photos=True) for name in read.members)
        if are_names and all(read.members != other.members for other in by_level.values()):
            by_level[level] = read
    return dict(sorted(by_level.items(), reverse=True))


def _listed(path: Path) -> ClassFiles | None:
    """Return the classes that a file lists, by itself or in a folder; None if the names of folders are the classes."""
    if is_project(path):
        return _project(path)
    if is_table(path):
        return _grouped(path, *read_table(path))
    if is_annotation_file(path):
        return _grouped(path, *read_annotations([path]))
    if not is_folder(path) and path.suffix.lower() != ".zip" and path.exists():
        raise FrnError(f"{path}: is a file without classes. Pass a folder, zip, CSV or project.")
    if (table := metadata_table(path)) is not None:
        return _grouped(path, *read_table(table))
    if annotations := find_annotations(path):
        return _grouped(path, *read_annotations(annotations))
    return None


def _from_tree(path: Path, tree: ClassTree, *, needed: bool) -> ClassFiles:
    if needed or not tree.loose:
        tree.require_classes(path)
    files = [(folder, f"{folder}/{name}") for folder, names in tree.folders.items() for name in names]
    files.sort(key=lambda file: natural_order(file[1]))
    pairs = [(folder.rpartition("/")[2], tree.root / name) for folder, name in files]
    classes = _grouped(path, pairs, tree.skipped)
    classes.loose = [tree.root / name for name in sorted(tree.loose, key=natural_order)]
    return classes


def _grouped(where: Path, pairs: Iterable[tuple[str, Path]], skipped: list[Broken]) -> ClassFiles:
    """Return photos by class. Raises FrnError if all of them belong to no class."""
    members: dict[str, list[Path]] = {}
    for name, path in pairs:
        members.setdefault(check_name(name), []).append(path)
    names = sorted(members, key=lambda name: (natural_order(name), name))
    none = [name for name in names if is_no_class(name)]
    others = [path for name in none for path in members[name]]
    notes = [f"{where}: {name!r} is not a class: its {len(members[name])} photos belong to no class" for name in none]
    if none and len(none) == len(names):
        raise FrnError(f"{where}: has no class, only photos that belong to none ({', '.join(none)})")
    kept = {name: members[name] for name in names if name not in none}
    return ClassFiles(kept, others, skipped=list(map(str, skipped)), notes=notes)


def _project(path: Path) -> ClassFiles:
    project = load_project(path)
    classes = {entry.name: [photo.path for photo in entry.supports] for entry in project.state.classes}
    members = {name: photos for name, photos in classes.items() if photos}
    if not members:
        raise FrnError(f"{path}: has no class with a photo")
    empty = [f"class {name!r} has no photos" for name in classes if name not in members]
    others, model = [photo.path for photo in project.state.others], project.model.locate(path.parent)
    return ClassFiles(members, others, skipped=empty, notes=list(project.notes), project=project, model=model)
