"""Imports point in one direction, no two modules import each other, and folders stay small.

All imports count, including those inside functions and under `TYPE_CHECKING`.
"""

import ast
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = {"frn": ROOT, "frn_export": ROOT / "export", "frn_tui": ROOT / "tui"}

LAYERS = [
    {"frn.errors", "frn._version"},
    {"frn.system"},
    {"frn.images"},
    {"frn.episodes"},
    {"frn.ridge"},
    {"frn.backbones", "frn.heads"},
    {"frn.models"},
    {"frn.features"},
    {"frn.projects"},
    {"frn.inference"},
    {"frn.data"},
    {"frn.evaluation"},
    {"frn.training"},
    {"frn.report", "frn.reproduce"},
    {"frn_export"},
    {"frn.estimator"},
    {"frn_tui"},
    {"frn.cli"},
    {"frn", "frn.__main__"},
]
"""A module imports only from lower layers and from its own package. `frn` itself only re-exports public names."""

APP_LAYERS = [
    {"frn_tui.terminal"},
    {"frn_tui.settings"},
    {"frn_tui.client"},
    {"frn_tui.document", "frn_tui.engine"},
    {"frn_tui.widgets"},
    {"frn_tui.dialogs"},
    {"frn_tui.panes"},
    {"frn_tui.screens"},
    {"frn_tui.web", "frn_tui.app"},
    {"frn_tui.main"},
]
"""The layers of the app; its engine runs in a separate process."""

TORCH_FREE = (
    "frn.errors",
    *(f"frn.system.{name}" for name in ("caches", "extras", "files", "file_sets", "hardware", "processes", "archives")),
    *("frn.features", "frn.projects", "frn.images"),
    "frn.episodes",
    *(f"frn.ridge.{name}" for name in ("parameters", "enrolment", "tuning", "unlabelled")),
    *(f"frn.models.{name}" for name in ("zoo", "header")),
    *("frn.inference", "frn.reproduce", "frn.estimator"),
    *(f"frn.report.{name}" for name in ("page", "photos_page", "score_page", "heat_maps", "explanation_picture")),
    *("frn.evaluation.labelled", "frn.evaluation.comparison"),
)


@cache
def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for package, root in SOURCES.items()
        for path in sorted((root / package).rglob("*.py"))
    }


def imported(path: Path) -> set[str]:
    """Return the dotted names that a module imports anywhere."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@cache
def graph() -> dict[str, set[str]]:
    """Map each module to the modules of this project that it imports."""
    known = modules()

    def module_of(name: str) -> str | None:
        return next((candidate for candidate in (name, name.rpartition(".")[0]) if candidate in known), None)

    return {name: {of for i in imported(path) if (of := module_of(i)) is not None} for name, path in known.items()}


def place(module: str, layers: list[set[str]]) -> tuple[int, str] | None:
    """Return the layer of a module and its package in that layer; the longest matching name counts."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        for index, names in enumerate(layers):
            if name in names:
                return index, name
    return None


def points_up(layers: list[set[str]], package: str) -> list[str]:
    found = []
    for name, needed in graph().items():
        if name == package and package == "frn_tui":
            continue
        own = place(name, layers) if name.startswith(package) else None
        for other in needed if own else ():
            there = place(other, layers) if other.startswith(package) else None
            if own and there and there[1] != own[1] and there[0] >= own[0]:
                found.append(f"{name} imports {other}")
    return found


def test_every_module_has_a_layer() -> None:
    assert [name for name in modules() if place(name, LAYERS) is None] == []
    assert [n for n in modules() if n.startswith("frn_tui.") and place(n, APP_LAYERS) is None] == []


def test_imports_point_one_way() -> None:
    assert points_up(LAYERS, "frn") == []
    assert points_up(APP_LAYERS, "frn_tui") == []


def test_no_two_modules_import_each_other() -> None:
    left = {name: needed - {name} for name, needed in graph().items()}
    while leaves := {name for name, needed in left.items() if not needed}:
        left = {name: needed - leaves for name, needed in left.items() if name not in leaves}
    while ends := left.keys() - set().union(*left.values()):  # these modules lead to a cycle without being part of it
        left = {name: needed for name, needed in left.items() if name not in ends}
    assert not left, f"import circles among {sorted(left)}"


def test_folders_are_small() -> None:
    """Each folder has at most twelve modules and folders; `frn` itself has at most five modules."""
    modules_in, folders_in = Counter[Path](), defaultdict[Path, set[str]](set)
    for path in modules().values():
        if path.name != "__init__.py":
            modules_in[path.parent] += 1
        if path.parent.parent not in SOURCES.values():
            folders_in[path.parent.parent].add(path.parent.name)
    home = ROOT / "frn"
    assert modules_in[home] + 1 <= 5
    sizes = {folder: modules_in[folder] + len(folders_in[folder]) for folder in modules_in.keys() | folders_in.keys()}
    assert {str(folder): size for folder, size in sizes.items() if size > 12 and folder != home} == {}


def test_no_file_name_occurs_twice_in_a_package() -> None:
    names = Counter((name.split(".")[0], path.name) for name, path in modules().items())
    assert [name for name, times in names.items() if times > 1 and name[1] != "__init__.py"] == []


def test_torch_free_modules_do_not_import_torch() -> None:
    for name, path in modules().items():
        if name.startswith(TORCH_FREE) and name != "frn.episodes.loader":
            assert not [i for i in imported(path) if i.split(".")[0] == "torch"], name
