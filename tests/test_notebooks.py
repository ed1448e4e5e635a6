"""The notebooks in docs/ run and print the output that they show."""

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NUMBER = r"\d+(?:\.\d+)?"


TRAINING = ("a-table", "own-backbone")


@pytest.mark.parametrize(
    "notebook",
    [
        pytest.param(path, id=path.stem, marks=pytest.mark.nightly if path.stem in TRAINING else ())
        for path in sorted(FOLDER.glob("*.ipynb"))
    ],
)
def test_a_notebook_prints_its_recorded_output(notebook: Path) -> None:
    """Run every cell in order in one namespace, like a kernel; numbers may differ slightly between machines."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), str(notebook), "exec"), names)
        shown = "".join("".join(output.get("text", "")) for output in cell["outputs"])
        assert re.sub(NUMBER, "#", printed.getvalue()) == re.sub(NUMBER, "#", shown)
        numbers = [[float(number) for number in re.findall(NUMBER, text)] for text in (printed.getvalue(), shown)]
        assert numbers[0] == pytest.approx(numbers[1], abs=4)


def test_notebooks_are_small_and_executed() -> None:
    for notebook in FOLDER.glob("*.ipynb"):
        assert notebook.stat().st_size < 60_000
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        assert all(cell["execution_count"] for cell in cells if cell["cell_type"] == "code")
