"""Run the scripts as users call them."""

import importlib
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import bench
import numpy as np
import pytest
import torch
import typer

from frn.data.synthetic import draw_moth, species
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model, save_model
from tests.benchmarks.scripts import invoke, output


def test_a_script_runs_in_a_process_with_a_single_blas_thread(tmp_path: Path) -> None:
    """A script restarts itself, because libraries read these variables when they are loaded."""
    code = """
import os, sys
import bench
def main() -> None:
    print(*(os.environ[name] for name in bench.ONE_THREAD))
if __name__ == "__main__":
    bench.run(main)
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    environ = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(Path(bench.__file__).parents[1])}
    done = subprocess.run([sys.executable, script], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "1 1 1\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    path = tmp_path / "small.safetensors"
    save_model(Model(ModelConfig(backbone="conv4", method="frn", transform=EvaluationTransform(size=32))), path)
    return path


def test_the_head_is_compared_with_the_plain_formulations() -> None:
    words = ("head", "--d", 16, "--shot", 1, "--rounds", 1)
    rows = {row["head"]: row for row in json.loads(output(*words, "--json"))}
    plain = {"paper, Eq. 8", "paper, Eq. 10", "left to right"}
    assert set(rows) == plain | {"frn, torch", "frn, numpy", "frn, onnx"}
    for row in rows.values():
        assert row["episode"] == "d = 16, r = 25, 5-way 1-shot"
        assert {name: row[f"x {name}"] for name in plain} == {name: rows[name]["ms"] / row["ms"] for name in plain}
    assert "d = 16, r = 25, 5-way 1-shot  frn, onnx" in output(*words)
    steps = json.loads(output(*words, "--backward", "--way", 3, "--r", 4, "--json"))
    assert [step["head"] for step in steps if step["episode"] == "d = 16, r = 4, 3-way 1-shot"] == [*rows][:4]


def test_an_exported_model_is_compared_with_torch_and_a_classifier_with_its_extractor(model: Path) -> None:
    words = ("infer", "--model", model, "--batch", 2, "--way", 3, "--rounds", 1)
    rows = json.loads(output(*words, "--json"))
    sizes = [f"answer, {size}" for size in ("32 x 32", "64 x 64", "640 x 480")]
    assert list(dict.fromkeys(row["what"] for row in rows)) == ["maps, 2 at once", *sizes]
    ours, theirs = rows[:2]
    assert (ours["program"], theirs["program"]) == ("onnxruntime", "torch")
    assert theirs["times as long as the first"] == theirs["ms"] / ours["ms"]
    text = output(*words)
    assert re.search(r"classifier\.onnx of 3 classes: \d\.\d MB", text)
    assert re.search(r"answer, 640 x 480 +classifier", text)


def test_frn_is_compared_with_deepemd() -> None:
    pytest.importorskip("ot", reason="needs the extra `emd`")
    words = ("head", "--deepemd", "--shot", 1, "--d", 8, "--r", 4, "--rounds", 1)
    published = {row["head"]: row["published ms"] for row in json.loads(output(*words, "--json"))}
    assert (published["DeepEMD, POT"], published["frn, torch"]) == ("23,275", None)
    (pot,) = (row.split() for row in output(*words).splitlines() if "DeepEMD, POT" in row)
    assert pot[-1] == "23,275"


def test_a_missing_solver_is_reported_before_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ot", None)
    monkeypatch.setattr("head.time_heads", lambda *asked, **how: pytest.fail("timed"))
    result = invoke("head", "--deepemd")
    assert result.exit_code == 1
    assert "needs POT" in result.stderr


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Make six classes of ten rendered moths."""
    for label in range(6):
        home = tmp_path / "pool" / f"moth {label}"
        home.mkdir(parents=True)
        for number in range(10):
            draw_moth(species(label), np.random.default_rng([label, number]), 32).save(home / f"{number}.png")
    return tmp_path / "pool"


def test_models_are_compared_on_the_same_photos_and_draws(
    pool: Path, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import tune

    monkeypatch.setattr(tune, "SHOTS", (1, 5))
    tune.compare(["conv4", str(model), str(model)], [pool], ["."], [5], 3)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["5 classes", "---", "pool (6)", "mean", f"{model} ahead by"]
    assert rows[2][1:] == rows[3][1:]
    assert rows[2][2] == rows[2][3] != rows[2][1]
    assert rows[4][2] == "+0.0 ± 0.0 / +0.0 ± 0.0"
    (gain, _), (other, _), (mine, _) = (
        [float(x.split()[0]) for x in cell.split(" / ")] for cell in (rows[4][1], *rows[3][1:3])
    )
    assert gain == pytest.approx(mine - other, abs=0.11)


def documented() -> list[str]:
    """Every benchmark command in the documentation."""
    root = Path(__file__).parents[2]
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("assets/**/*.md")]
    found = re.compile(r"python assets/benchmarks/(\w+\.py(?: [^`\n#\\]+)?)")
    return sorted({words.strip() for page in pages for words in found.findall(page.read_text(encoding="utf-8"))})


@pytest.mark.parametrize("text", documented())
def test_documented_command_parses(text: str) -> None:
    script, *words = shlex.split(text)
    module = importlib.import_module(script.removesuffix(".py"))
    if hasattr(module, "parser"):
        module.parser().parse_args(words)
        return
    app = typer.Typer()
    app.command()(module.main)
    values = {"MODEL": "conv4"}
    command: Any = typer.main.get_command(app)
    try:
        command.make_context(script, [values.get(word, word) for word in words])
    except Exception as error:
        if type(error).__name__ != "MissingParameter":  # a mention in a sentence may be incomplete
            raise


@pytest.mark.nightly
def test_the_choice_of_a_layer_is_measured_with_a_trained_transformer(tmp_path: Path) -> None:
    pytest.importorskip("timm", reason="needs the extra `timm`")
    for split, number, photo in itertools.product(("train", "val"), range(10), range(10)):
        path = tmp_path / "data" / split / str(number) / f"{photo}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        draw_moth(species(number), np.random.default_rng(photo), 80).save(path)
    words = ("layers", tmp_path / "data", "--weights", tmp_path / "vit.pth", "--minutes", 0.02, "--draws", 1)
    assert re.search(
        r"data 0: last \d.*, auto \d.* of 50 photos right.*\nmean: last .*; difference .*%", output(*words)
    )
