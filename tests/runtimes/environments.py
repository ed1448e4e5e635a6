"""Separate environments for tests: a Python or Node.js with other packages, downloaded once."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def python_with(place: Path, *packages: str) -> str:
    """Return the Python of a new environment with these packages, or skip the test without network access."""
    python = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not place.is_dir():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        fetch([str(python), "-m", "pip", "install", "-q", *packages], place)
    return str(python)


def node_with(place: Path, package: str, script: str) -> list[str]:
    """Return the command that runs a script from this folder with a Node.js package, or skip the test if offline."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("no Node.js here")
    if not place.is_dir():
        place.mkdir(parents=True)
        fetch(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", package], place)
    return ["node", str(Path(__file__).with_name(script))]


def fetch(command: list[str], place: Path) -> None:
    """Run a command that downloads packages into a folder, or skip the test and remove the folder."""
    if (fetched := subprocess.run(command, cwd=place, capture_output=True, text=True)).returncode:
        shutil.rmtree(place)
        pytest.skip(f"{command[-1]} cannot be installed here: {fetched.stderr.strip()[-200:]}")
