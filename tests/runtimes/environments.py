"""Separate environments for tests: a Python or Node.js with other packages, downloaded once.

`FRN_RUNTIMES` names a folder in which the environments are kept. What is not installed in `SECONDS`, or fails to be, is
removed, and the test is skipped with the reason.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 1200
"""Seconds that an installation may take; on a busy machine, pip takes several minutes for onnxruntime alone."""
PIP = ("-m", "pip", "install", "-q", "--retries", "1", "--timeout", "30")
NPM = ("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=30000")
READY = ".ready"  # empty file that marks a complete environment


def place_of(name: str, temporary: Path) -> Path:
    """Return the folder of an environment."""
    return Path(os.environ.get("FRN_RUNTIMES", temporary)) / name


def python_with(place: Path, *packages: str) -> str:
    """Return the Python of a new environment with these packages, or skip the test."""
    python = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    commands: list[list[str | Path]] = [[sys.executable, "-m", "venv", place], [python, *PIP, *packages]]
    _install(place, *commands)
    return str(python)


def packages_in(place: Path, *packages: str) -> str:
    """Return a folder for PYTHONPATH with these packages alone, or skip the test."""
    _install(place, [sys.executable, *PIP, "--no-deps", "--target", place, *packages])
    return str(place)


def node_with(place: Path, package: str, script: str) -> list[str]:
    """Return the command that runs a script from this folder with a Node.js package, or skip the test."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("no Node.js here")
    _install(place, [*NPM, package])
    return ["node", str(Path(__file__).with_name(script))]


def _install(place: Path, *commands: list[str | Path]) -> None:
    """Run commands that fill a folder, unless it is complete."""
    if (place / READY).is_file():
        return
    shutil.rmtree(place, ignore_errors=True)  # an earlier run was killed
    place.mkdir(parents=True)
    for command in commands:
        try:
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=SECONDS)
            reason = done.stderr.strip()[-200:] if done.returncode else ""
        except subprocess.TimeoutExpired:
            reason = f"it took more than {SECONDS} s"
        if reason:
            shutil.rmtree(place)
            pytest.skip(f"{command[-1]} cannot be installed here: {reason}")
    (place / READY).touch()
