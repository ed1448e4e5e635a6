"""`python -m tests.campaign.mutants`: change the core in one place at a time, and check that its nearest tests fail.

A mutant changes one operator, constant or condition, or drops one call. It runs in a copy of the tree with the nearest
test files: the one with the mirrored path, then those that import its module. Survivors are printed as diffs.
`EQUIVALENT` lists mutants that no test can detect, each with the reason.
"""

import argparse
import ast
import contextlib
import difflib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORE = (
    *("frn/system/files.py", "frn/features", "frn/projects", "frn/inference", "frn/evaluation", "frn/ridge"),
    *("frn/estimator", "export/frn_export", "tui/frn_tui/engine"),
)
SOURCES = {"frn": "frn", "frn_export": "export/frn_export", "frn_tui": "tui/frn_tui", "tests": "tests"}
"""Root folder of each package."""
ELSEWHERE = ("tests/campaign", "tests/runtimes", "tests/browser", "tests/test_")
"""Markers of tests that are slow or need more than Python."""
REACH = 8  # number of test files that a mutant must pass to survive
TIMEOUT = 600  # seconds after which a test file counts as hung and is killed
NO_TESTS = 5  # exit status of pytest if it found no test
EQUIVALENT = Path(__file__).with_name("equivalent.toml")

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "in": "not in"}
COMPARISONS |= {"is not": "is", "not in": "in"}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*", "**": "*"}
SILENT = ("slots", "strict", "kw_only", "frozen", "deterministic", "threads", "sort_keys")
"""Keywords that affect only speed, the order of JSON keys or errors for programmers; ONNX has no map to order."""
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change in one file."""

    path: str
    line: int
    before: str
    after: str
    start: int  # first byte of the change, and the first byte after it
    end: int
    text: str
    scope: tuple[str, ...] = ()  # names of the enclosing classes, functions and module constants

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


class Places(ast.NodeVisitor):
    """Collect every place in a module that can be changed: (start, end, new text, enclosing names)."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.found: list[tuple[int, int, str, tuple[str, ...]]] = []
        self.scope: tuple[str, ...] = ()
        self.visit(ast.parse(source))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = self.lines[node.lineno - 1], self.lines[node.end_lineno - 1]
        return start + node.col_offset, end + node.end_col_offset

    def change(self, start: int, end: int, text: str) -> None:
        self.found.append((start, end, text, self.scope))

    def inside(self, names: Iterable[str], node: ast.AST) -> None:
        """Visit the content of a class, a function or a constant."""
        before, self.scope = self.scope, (*self.scope, *names)
        self.generic_visit(node)
        self.scope = before

    def between(self, left: ast.expr, right: ast.expr, known: dict[str, str]) -> None:
        """Change the operator between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        operator = self.source[start:end].decode()
        name = re.sub(r"#[^\n]*|[()\\]", " ", operator)
        if (word := " ".join(name.split())) in known:
            found = re.search(r"\s+".join(map(re.escape, word.split())), operator)
            assert found
            self.change(start + found.start(), start + found.end(), known[word])

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
            self.between(left, right, COMPARISONS)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        words = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict)
        if not any(
            isinstance(n, words) or _is_text(n) for n in (node.left, node.right)
        ):  # those mutants only raise TypeError
            self.between(node.left, node.right, ARITHMETIC)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, {"and": "or", "or": "and"})
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            start, end = self.span(node)[0], self.span(node.operand)[0]
            self.change(start, start + len(self.source[start:end].rstrip(b"(")), "")
        if not isinstance(node.operand, ast.Constant):  # for a shape, -2 and -1 are equally invalid
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value, (start, end) = node.value, self.span(node)
        if isinstance(value, bool):
            self.change(start, end, str(not value))
        elif isinstance(value, int):
            self.change(start, end, str(value + 1))
        elif isinstance(value, float):
            self.change(start, end, repr(value * 2 if value else 1.0))

    def visit_Call(self, node: ast.Call) -> None:
        node.args = [arg for arg in node.args if not _is_last_axis(arg)]
        if isinstance(node.func, ast.Name) and node.func.id in CALLS:
            self.change(*self.span(node.func), CALLS[node.func.id])
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.change(*self.span(node), "pass")
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        is_yes = node.arg == "keepdims" and ast.unparse(node.value) == "1"  # ONNX treats 2 as the same
        if node.arg not in SILENT and not _is_last_axis(node.value) and not is_yes:
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        named = (name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name))
        self.inside(() if self.scope else named, node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        """Skip annotations, which have no effect."""

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.inside([node.name], node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        node.returns = None
        self.inside([node.name], node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        node.returns = None
        self.inside([node.name], node)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _is_last_axis(node: ast.expr) -> bool:
    """Return whether an argument is -1; for arrays with two axes, 1 is the last axis."""
    return ast.unparse(node) == "-1"


def mutants(path: str, source: bytes) -> Iterator[Mutant]:
    """Return every mutant of a file."""
    original = source.decode().splitlines()
    for start, end, text, scope in Places(source).found:
        line = source.count(b"\n", 0, start)
        changed = (source[:start] + text.encode() + source[end:]).decode().splitlines()
        yield Mutant(path, line + 1, original[line].strip(), changed[line].strip(), start, end, text, scope)


def core() -> list[str]:
    """Return the files to mutate, relative to the root."""
    found = [
        path for place in CORE for path in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))
    ]
    return sorted(str(path.relative_to(ROOT)) for path in found if path.is_file())


def module_of(path: str) -> str:
    """Return the dotted module name of a file."""
    for package, folder in SOURCES.items():
        if path.startswith(f"{folder}/"):
            return ".".join([package, *Path(path).with_suffix("").relative_to(folder).parts]).removesuffix(".__init__")
    raise ValueError(path)


@cache
def imports() -> dict[str, set[str]]:
    """Map each file to the modules of this project that it imports; `from a import b` may name two."""
    found: dict[str, set[str]] = {}
    for folder in SOURCES.values():
        for path in (ROOT / folder).rglob("*.py"):
            names: set[str] = set()
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Import):
                    names |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    names.add(node.value)  # a command's module is imported by name
            names |= {module_of(str(near.relative_to(ROOT))) for near in path.parent.glob("conftest.py")}
            found[str(path.relative_to(ROOT))] = {name for name in names if name.split(".")[0] in SOURCES}
    return found


@cache
def nearest(path: str) -> tuple[str, ...]:
    """Return the test files for a module, nearest first."""
    package, *parts = module_of(path).split(".")
    folder = Path("tests", package.removeprefix("frn_"), *parts[:-1])
    importers, distance = {module_of(path)}, dict[str, int]()
    while len(distance) < REACH:
        reached = {file for file, names in imports().items() if names & importers}
        for file in reached:
            if Path(file).name.startswith("test_") and not file.startswith(ELSEWHERE):
                distance.setdefault(file, len(importers))
        if importers == (importers := importers | {module_of(file) for file in reached}):
            break

    def order(file: str) -> tuple[bool, int, bool, int]:
        is_mirror = bool(parts) and Path(file).stem in (f"test_{parts[-1]}", f"test_{parts[-1]}s")
        return not is_mirror, distance[file], Path(file).parent != folder, len(imports()[file])

    return tuple(sorted(distance, key=order)[:REACH])


def copied(place: Path) -> Path:
    """Copy the current tree."""
    ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", "*cache", "site", "dist", "node_modules")
    return Path(shutil.copytree(ROOT, place / "tree", ignore=ignored, symlinks=True))


class Tests:
    """Runs test files from a tree, each in a fork of one process that has imported the libraries.

    Tests that already fail without a change are skipped from then on. Nothing outside the tree's folder is written.
    """

    def __init__(self, tree: Path) -> None:
        self.tree, self.home = tree, tree.parent / "home"
        paths = os.pathsep.join(str(tree / folder) for folder in ("", "export", "tui"))
        own = {"HOME": self.home, "TMPDIR": self.home, "PYTHONPATH": paths, "OMP_NUM_THREADS": 1}
        own |= {"XDG_CACHE_HOME": self.home / "c", "XDG_DATA_HOME": self.home / "d", "PYTHONDONTWRITEBYTECODE": 1}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.campaign.forked_tests"],
            cwd=tree,
            env=os.environ | {name: str(value) for name, value in own.items()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._unsound: list[str] = []
        self._sound: set[str] = set()
        self._seconds: dict[str, float] = {}

    def close(self) -> None:
        self._server.communicate()

    def first_failure(self, files: tuple[str, ...], mutated: Path, source: bytes) -> str:
        """Return the first test that fails with `mutated` but passes with `source`, or "" if all pass.

        The nearest file runs first, then the fastest ones.
        """
        changed = mutated.read_bytes()
        for file in [*files[:1], *sorted(files[1:], key=lambda file: self._seconds.get(file, 0.0))]:
            while (failed := self._run(file)) and failed not in self._unsound:
                test = failed if "::" in failed else file  # the module cannot be imported, or importing it hangs
                if test not in self._sound:
                    mutated.write_bytes(source)
                    fails_always = bool(self._run(test))
                    mutated.write_bytes(changed)
                    if fails_always:
                        self._unsound.append(failed)
                        continue
                self._sound.add(test)
                return failed
        return ""

    def _run(self, test: str) -> str:
        """Run a file or one test; return the first failure or how pytest ended, or "" if all pass."""
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir()
        assert self._server.stdin
        assert self._server.stdout
        began = time.monotonic()
        words = [test, *(f"--deselect={name}" for name in self._unsound)]
        wish = {"words": words, "said": str(self.home / "said"), "timeout": TIMEOUT}
        print(json.dumps(wish), file=self._server.stdin)
        self._server.stdin.flush()
        status = int(self._server.stdout.readline())
        if not status or status == NO_TESTS:
            self._seconds[test] = time.monotonic() - began
            return ""
        named = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", (self.home / "said").read_text(), re.MULTILINE)
        return named[1] if named else f"{test}, status {status}"


@cache
def _listed() -> tuple[set[tuple[str, str, str]], set[tuple[str, str]]]:
    """Mutants that no test can detect: (file name, line before, line after or ""), and (file name, enclosing name)."""
    listed = tomllib.loads(EQUIVALENT.read_text())
    lines = {(entry["file"], entry["before"], entry.get("after", "")) for entry in listed["mutant"]}
    return lines, {(entry["file"], name) for entry in listed["scope"] for name in entry["names"]}


def is_equivalent(mutant: Mutant) -> bool:
    """Return whether `EQUIVALENT` lists a mutant or one of its enclosing names."""
    (lines, scopes), file = _listed(), Path(mutant.path).name
    is_listed = any((file, mutant.before, after) in lines for after in (mutant.after, ""))
    return is_listed or any((file, name) in scopes for name in mutant.scope)


def drawn(count: int, seed: int, within: str) -> list[Mutant]:
    """Draw mutants at random, excluding the equivalent ones."""
    every = [m for path in core() if within in path for m in mutants(path, (ROOT / path).read_bytes())]
    every = [m for m in every if not is_equivalent(m)]
    return random.Random(seed).sample(every, min(count, len(every)))


def try_all(chosen: list[Mutant]) -> float:
    """Try mutants one after the other, print survivors, and return the share killed."""
    killed = 0
    with tempfile.TemporaryDirectory(prefix="frn-mutants-") as place:
        tree = copied(Path(place))
        with contextlib.closing(Tests(tree)) as tests:
            for number, mutant in enumerate(chosen, 1):
                nearby, file = nearest(mutant.path), tree / mutant.path
                source = file.read_bytes()
                file.write_bytes(mutant.apply(source))
                failed = tests.first_failure(nearby, file, source)
                file.write_bytes(source)
                killed += bool(failed)
                said = f"{number}/{len(chosen)} {killed / number:.0%} {mutant.path}:{mutant.line} {failed}"
                print(said, file=sys.stderr, flush=True)
                if not failed:
                    both = (text.decode().splitlines() for text in (source, mutant.apply(source)))
                    print(f"survived {mutant.path}:{mutant.line} {' '.join(nearby)}")
                    print("\n".join(difflib.unified_diff(next(both), next(both), n=2, lineterm="")), flush=True)
    return killed / max(1, len(chosen))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--within", default="", help="only files whose path holds this")
    options = parser.parse_args()
    chosen = drawn(options.count, options.seed, options.within)
    share = try_all(chosen)
    print(f"{share:.0%} of {len(chosen)} mutants killed")


if __name__ == "__main__":
    main()
