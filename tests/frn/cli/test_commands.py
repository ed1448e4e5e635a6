"""Commands as users call them."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import Result

from frn.cli.shell.console import printable
from frn.cli.train.training_display import LASTING, training_display
from frn.evaluation.accuracy import Accuracy
from frn.models.model import save_model
from frn.models.zoo import assets_folder
from frn.training.loop import StepReport, ValidationReport
from tests import processes
from tests.commands import frn
from tests.drawings import MOTHS, PHOTO
from tests.models import small_model


def lines(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with random weights."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "small.safetensors"
    save_model(small_model(), path)
    return path


def test_commands_that_need_no_torch_do_not_import_it(tmp_path: Path) -> None:
    moths, photo, project = MOTHS, PHOTO, tmp_path / "m.frn.json"
    (tmp_path / "labelled" / "eyed footman").mkdir(parents=True)
    shutil.copy(photo, tmp_path / "labelled" / "eyed footman")
    commands = [
        ["--help"],
        ["--version"],
        ["presets"],
        ["models"],
        ["reproduce"],
        *([name, "--help"] for name in ("classify", "train", "eval", "data", "export")),
        ["classify", "/none", "x.png"],
        ["classify", str(moths), str(photo), "--top", "1"],
        ["enroll", str(moths), "--out", str(project)],
        ["explain", str(project), str(photo), "--out", str(tmp_path / "why.png")],
        ["score", str(project), str(tmp_path / "labelled")],
    ]
    code = (
        "import json, sys; from frn.cli.main import app\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    try: app(words)\n"
        "    except SystemExit as stop: print('STATUS', stop.code, 'torch' in sys.modules)\n"
        "import frn; frn.FewShotClassifier; assert 'torch' not in sys.modules"
    )
    result = processes.run([sys.executable, "-c", code, json.dumps(commands)])
    statuses = [line for line in result.stdout.splitlines() if line.startswith("STATUS")]
    expected = ["STATUS 0 False"] * len(commands)
    expected[commands.index(["classify", "/none", "x.png"])] = "STATUS 1 False"
    assert statuses == expected
    assert result.stderr.startswith("error: /none: cannot be listed (No such file or directory)\n")


def test_shipped_model_distinguishes_the_samples() -> None:
    """The first command in the README. Chance level is one in eight."""
    samples = assets_folder() / "samples"
    result = frn("classify", samples / "shells", samples / "queries", "--json")
    answers = lines(result)
    assert result.exit_code == 0
    species = {folder.name for folder in (samples / "shells").iterdir()}
    shown = [(Path(str(answer["image"])).stem[:-2], answer) for answer in answers]
    known = [answer["label"] == name for name, answer in shown if name in species]
    others = [answer["unknown"] for name, answer in shown if name not in species]
    assert (len(known), len(others)) == (24, 8)
    assert sum(known) >= 20
    assert sum(map(bool, others)) >= 5


def test_classify_prints_a_line_per_image_with_errors_and_probabilities(moths: Path, model: Path) -> None:
    result = frn(
        "classify",
        moths / "test",
        moths / "val" / "moth 20",
        moths / "val/moth 2[12]/00.png",
        "--json",
        "--model",
        model,
    )
    answers = lines(result)
    assert result.exit_code == 0
    assert len(answers) == 14
    for answer in answers:
        probabilities, errors = answer["probabilities"], answer["errors"]
        assert isinstance(probabilities, dict)
        assert isinstance(errors, dict)
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-4)
        assert (
            answer["label"] == min(errors, key=errors.__getitem__) == max(probabilities, key=probabilities.__getitem__)
        )
        assert answer["probability"] == max(probabilities.values())
        assert 0 <= float(str(answer["known"])) <= 1
    below, above = ([float(str(x["known"])) for x in answers if x["unknown"] is side] for side in (True, False))
    assert max(below, default=0) < min(above)
    unsure = frn("classify", moths / "test", moths / "val" / "moth 20", "--json", "--model", model, "--threshold", 1)
    assert all(answer["unknown"] for answer in lines(unsure))


def test_broken_photos_are_skipped(moths: Path, model: Path, tmp_path: Path, truncated_jpeg: Path) -> None:
    text, good = tmp_path / "text.png", moths / "test" / "moth 40" / "00.png"
    text.write_text("no picture")
    missing = tmp_path / "none.jpg"
    result = frn("classify", moths / "test", text, good, truncated_jpeg, missing, "--json", "--model", model)
    answers = lines(result)
    assert result.exit_code == 1
    assert [sorted(answer)[0:1] for answer in answers] == [["error"], ["errors"], ["error"], ["error"]]
    assert result.stderr == "error: 3 of 4 images could not be read\n"
    plain = frn("classify", moths / "test", text, good, "--model", model)
    assert "00.png: moth" in plain.stdout
    assert "is not an image in a known format" in plain.stderr


def test_unsuitable_folders_give_a_one_line_error(model: Path, moths: Path, tmp_path: Path) -> None:
    query = moths / "test" / "moth 40" / "00.png"
    one = tmp_path / "one"
    shutil.copytree(moths / "test" / "moth 40", one / "moth 40")
    result = frn("classify", one, query, "--json", "--model", model)
    assert result.exit_code == 0
    assert "has one class: every photo is labelled 'moth 40' or unknown" in result.stderr
    (tmp_path / "empty").mkdir()
    bad = tmp_path / "bad" / "words"
    bad.mkdir(parents=True)
    (bad / "text.png").write_text("no picture")
    for folder, reason in (
        (tmp_path / "empty", "has no class folders"),
        (tmp_path / "bad", "class 'words' has no usable image among 1 files"),
        (tmp_path / "none", "cannot be listed"),
    ):
        result = frn("classify", folder, query, "--model", model)
        assert result.exit_code == 1
        assert re.fullmatch(f"error: .*{re.escape(reason)}.*\n", result.stderr)
    assert frn("classify", moths / "test", query, "--model", "conv5").stderr.startswith("error: conv5: no model file")


def test_file_name_cannot_control_the_terminal() -> None:
    assert printable("a\x1b[2Jb\u202ec\n") == r"a\x1b[2Jb\u202ec\n"


def test_eval_reports_every_shot_reproducibly(moths: Path, model: Path) -> None:
    words = ("eval", model, "--data", moths, "--shot", 1, "--shot", 3, "--queries", 5, "--episodes", 20, "--json")
    first, again = json.loads(frn(*words).stdout), json.loads(frn(*words).stdout)
    assert list(first) == ["model", "data", "split", "seed", "results"]
    assert [list(result) for result in first["results"]] == [
        ["way", "shot", "queries", "episodes", "accuracy", "ci95", "seconds"]
    ] * 2
    assert [r["accuracy"] for r in first["results"]] == [r["accuracy"] for r in again["results"]]
    assert [r["shot"] for r in first["results"]] == [1, 3]
    alone = json.loads(frn(*(w for w in words[:4]), "--shot", 3, *words[8:]).stdout)
    assert alone["results"][0]["accuracy"] == first["results"][1]["accuracy"]


def test_eval_compares_models_on_the_same_episodes(moths: Path, model: Path) -> None:
    words = ("--data", moths, "--shot", 1, "--queries", 5, "--episodes", 60)
    first, other = map(json.loads, frn("eval", model, "conv4", *words, "--per-episode", "--json").stdout.splitlines())
    alone = json.loads(frn("eval", "conv4", *words, "--json").stdout)
    (one,), (two,) = first["results"], other["results"]
    gain = two.pop("difference")
    assert "difference" not in one
    assert two["accuracy"] == alone["results"][0]["accuracy"]
    shares = (np.array(two["correct"]) - np.array(one["correct"])) / 25 * 100
    assert gain["accuracy"] == pytest.approx(two["accuracy"] - one["accuracy"]) == pytest.approx(shares.mean())
    generator = np.random.default_rng(0)
    means = shares[generator.integers(0, 60, (20_000, 60))].mean(1)  # bootstrap
    low, high = np.quantile(means, [0.025, 0.975])
    assert gain["ci95"] == pytest.approx((high - low) / 2, rel=0.05)
    printed = frn("eval", model, "conv4", *words).stdout
    assert f"minus the first model: {gain['accuracy']:+.2f} ± {gain['ci95']:.2f} (paired)" in printed
    assert "named twice" in frn("eval", model, model, *words).stderr


def test_eval_reports_a_class_that_is_too_small(moths: Path, model: Path) -> None:
    result = frn("eval", model, "--data", moths, "--shot", 5)
    assert result.exit_code == 1
    assert "class 'moth 40' has 12 images, but a 5-shot episode with 16 queries needs 21" in result.stderr
    assert (
        "has no folder 'holdout' (it has test, train, val)"
        in frn("eval", model, "--data", moths, "--split", "holdout").stderr
    )


def assert_shown_by_tensorboard(run: Path) -> None:
    """TensorBoard has the `metrics.jsonl` values: loss, accuracy, alpha, beta, gamma, learning rate, validation."""
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulators.EventAccumulator(str(run / "tensorboard")).Reload()
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for name in ("loss", "accuracy", "learning_rate", "alpha", "beta", "gamma"):
        shown = [(event.step, event.value) for event in events.Scalars(f"train/{name}")]
        written = [(line["total_steps"], line[name]) for line in metrics if name in line]
        assert [step for step, _ in shown] == [step for step, _ in written]
        assert [value for _, value in shown] == pytest.approx([value for _, value in written], abs=1e-3), name
    assert [event.value for event in events.Scalars("val/accuracy")] == pytest.approx(
        [line["val_accuracy"] for line in metrics if "val_accuracy" in line]
    )


def test_a_model_trained_on_a_folder_can_be_evaluated_and_classifies(moths: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ("train", "cifar-fs-conv4", "--data", moths, "--out", out, "--way", 4, "--shot", 2, "--queries", 3)
    result = frn(*words, "--epochs", 2, "--precision", "fp32", "--json")
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["model"] == str(out / "best.safetensors")
    assert_shown_by_tensorboard(out)
    assert json.loads(frn("eval", out, "--data", moths, "--shot", 1, "--queries", 5, "--episodes", 20, "--json").stdout)
    assert len(lines(frn("classify", moths / "test", moths / "val" / "moth 20", "--model", out, "--json"))) == 12
    again = frn(*words, "--epochs", 2, "--precision", "fp32")
    assert again.exit_code == 1
    assert "already contains a run. Add --resume" in again.stderr
    assert "images of" not in again.stderr, "it is said before they are read"


def test_train_reports_missing_arguments() -> None:
    assert "Did you mean cifar-fs-conv4" in frn("train", "cifar-conv4").stderr
    assert "needs --data DIR with train/ and val/" in frn("train", "cifar-fs-conv4").stderr


def test_the_demo_trains_without_any_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frn.training.launch.DEMO_CLASSES", {"train": 10, "val": 5, "test": 5})
    monkeypatch.setattr("frn.training.launch.TEST_EPISODES", 20)
    result = frn("train", "demo", "--out", tmp_path / "demo", "--epochs", 1, "--warm-up", 4, "--json")
    steps = [json.loads(line) for line in (tmp_path / "demo" / "metrics.jsonl").read_text().splitlines()]
    rates = [step["learning_rate"] for step in steps if "learning_rate" in step]
    assert rates[:2] == pytest.approx([0.025, 0.05])
    summary = json.loads(result.stdout)
    assert set(summary) == {"model", "validation", "seconds", "test"}
    assert [test["shot"] for test in summary["test"]] == [1, 5]


def test_ctrl_c_saves_the_run_and_prints_how_to_resume_it(moths: Path, tmp_path: Path) -> None:
    out = tmp_path / "run with space"
    train = ["train", "cifar-fs-conv4", "--data", str(moths), "--out", str(out), "--epochs", "500"]
    train += ["--way", "5", "--shot", "1", "--queries", "5"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with processes.started([sys.executable, "-m", "frn", *train], **pipes) as process:
        deadline = time.monotonic() + 90
        while not (out / "metrics.jsonl").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stdout == ""
    command = r"frn train cifar-fs-conv4 .*--out '.*run with space' .*--resume"
    assert re.search(rf"saved after \d+ steps\. Continue with: {command}", stderr)
    assert "Traceback" not in stderr


def test_data_sets_are_prepared_and_checked(moths: Path, tmp_path: Path) -> None:
    result = frn("data", "prepare", "folder", "--source", moths, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    assert re.search(r"train\s+8 classes\s+96 images", result.stdout)
    assert frn("data", "check", tmp_path / "out").exit_code == 0
    (tmp_path / "out" / "val" / "moth 20" / "03.png").write_text("no picture")
    broken = frn("data", "check", tmp_path / "out", "--json")
    assert broken.exit_code == 1
    assert "broken: " in broken.stderr
    assert sum(len(report["broken"]) for report in json.loads(broken.stdout)) == 1


def test_a_class_in_several_splits_is_reported(moths: Path, tmp_path: Path) -> None:
    data = shutil.copytree(moths, tmp_path / "data")
    shutil.copytree(data / "train" / "moth 00", data / "val" / "moth 00")
    checked = frn("data", "check", data)
    assert checked.exit_code == 1
    assert f"{data}: class moth 00 is in train and val" in checked.stderr
    trained = frn("train", "cifar-fs-conv4", "--data", data, "--out", tmp_path / "run", "--queries", 99)
    assert "warning: class moth 00 is in train and val" in trained.stderr


def test_log_contains_a_line_per_epoch_and_validation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that takes hours and writes to a file should show that it is still running."""
    told = []
    with training_display(3, tmp_path) as display:
        for epoch in (1, 2, 3):
            for step in (1, 2):
                display(StepReport(epoch, step, 2, 1.5, 40.0))
            told.append(capsys.readouterr().err)
        display(ValidationReport(3, Accuracy(71.25, 0.5, 300), True))
    for epoch, line in enumerate(told, start=1):
        pattern = rf"epoch {epoch}/3: loss 1\.500  accuracy 40\.0%\n"
        assert re.fullmatch(pattern, line), line
    assert capsys.readouterr().err == f"epoch 3: validation {Accuracy(71.25, 0.5, 300)}  best so far\n"


def test_lasting_divergence_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = StepReport(1, 1, 500, 3.4, 5.0)
    ill = replace(sound, divergence="rho is 2e-06: no class reconstructs anything")
    with training_display(1, tmp_path) as display:
        for step in [ill] * (LASTING - 1) + [sound] + [ill] * (LASTING - 1):
            display(step)
        assert "warning" not in capsys.readouterr().err
        for _ in range(LASTING):
            display(ill)
    told = capsys.readouterr().err
    assert told.count("warning: rho is 2e-06") == 1
    assert "--warm-up 200" in told
