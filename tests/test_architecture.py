"""Imports point one way (STYLE: each name may import those before it, never those after)."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent

ORDER = [
    {"frn.errors", "frn.models.catalogue", "frn.system.extras"},
    {
        "frn.system.files",
        "frn.system.file_sets",
        "frn.system.hardware",
        "frn.system.sandbox",
        "frn.models.checkpoint_check",
        "frn.images.colour",
        "frn.images.heif",
    },
    {"frn.system.caches", "frn.images.opening", "frn.images.worker", "frn.models.zoo"},
    {"frn.models.header"},
    {"frn.episodes"},
    {"frn.ridge"},
    {"frn.inference"},
    {"frn.system.precision"},
    {"frn.backbones"},
    {"frn.heads"},
    {"frn.training.losses"},
    {"frn.data"},
    {"frn.models.weights"},
    {"frn.models.model", "frn.models.wrapper", "frn.episodes.loader"},
    {"frn.evaluation"},
    {"frn.report"},
    {"frn.training"},
    {"frn.reproduce"},  # tables of presets
    {"frn.training.decoder"},  # trains a decoder, into a run folder
    {"frn_export"},
    {"frn.estimator.loading"},
    {"frn.estimator.labels", "frn.estimator.photos", "frn.estimator.protocol"},
    {"frn.estimator.few_shot"},
    {"frn_tui"},
    {"frn.cli"},
]
TORCH_FREE = (
    "errors",
    *(f"system.{name}" for name in ("caches", "extras", "files", "file_sets", "hardware", "sandbox", "archives")),
    "images",
    *(f"episodes.{name}" for name in ("shape", "sampler")),
    *(f"ridge.{name}" for name in ("parameters", "enrolment", "leave_one_out", "tuning")),
    *(f"models.{name}" for name in ("catalogue", "zoo", "header")),
    *("inference", "reproduce", "estimator"),
    *(f"report.{name}" for name in ("page", "charts", "photos_page", "curves", "score_page", "score_table")),
    "evaluation.tally",
)


def rank(module: str) -> int | None:
    return next(
        (i for i, names in enumerate(ORDER) if any(module == n or module.startswith(f"{n}.") for n in names)), None
    )


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def module_level_imports(path: Path) -> set[str]:
    """What is imported as soon as the module is: not inside a function, and not for type checkers alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules() -> dict[str, Path]:
    sources = [(ROOT, "frn"), (ROOT / "export", "frn_export"), (ROOT / "tui", "frn_tui")]
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for root, package in sources
        for path in (root / package).rglob("*.py")
    }


def test_imports_point_one_way() -> None:
    for name, path in modules().items():
        own = rank(name)
        if own is None or name == "frn.__main__":
            continue
        for imported in imports(path):
            other = rank(imported)
            allowed = (
                other is None
                or other <= own
                or (name == "frn.models.model" and imported.startswith("frn.models.model"))
            )
            assert allowed, f"{name} imports {imported}"


def test_backbones_heads_and_losses_do_not_know_each_other() -> None:
    rooms = ("frn.backbones", "frn.heads", "frn.training.losses")
    for name, path in modules().items():
        for room in rooms:
            if name.startswith(room):
                others = [i for i in imports(path) if i.startswith(rooms) and not i.startswith(room)]
                assert not others, f"{name} imports {others}"


def test_the_torch_free_side_names_no_torch() -> None:
    for name, path in modules().items():
        if any(name == f"frn.{room}" or name.startswith(f"frn.{room}.") for room in TORCH_FREE):
            assert not [i for i in imports(path) if i.split(".")[0] == "torch"], name


EXPORT_ON_DEMAND = {"frn.estimator.loading", "frn.estimator.few_shot"}
"""Modules that export a model or a classifier when they are asked to, and import `frn_export` then."""


def test_the_core_does_without_the_exporter() -> None:
    for name, path in modules().items():
        if name.startswith("frn.") and not name.startswith("frn.cli"):
            assert not [i for i in module_level_imports(path) if i.startswith("frn_export")], name
            if name not in EXPORT_ON_DEMAND:
                assert not [i for i in imports(path) if i.startswith("frn_export")], name


def test_no_import_leads_back_to_where_it_came_from() -> None:
    known = modules()

    def module_of(imported: str) -> str | None:
        return next((name for name in (imported, imported.rpartition(".")[0]) if name in known), None)

    graph = {name: {module_of(i) for i in module_level_imports(path)} - {None, name} for name, path in known.items()}
    while leaves := {name for name, needed in graph.items() if not needed}:
        graph = {name: needed - leaves for name, needed in graph.items() if name not in leaves}
    assert not graph, f"import circles among {sorted(graph)}"
