"""Running the remaining rows of a table, and storing the results."""

import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec import to_builtins

from frn.data.folders import scan
from frn.data.pixel_cache import load_images
from frn.errors import FrnError
from frn.models.zoo import assets_folder
from frn.reproduce.table_report import (
    Command,
    Locations,
    MissingDataError,
    commands,
    markdown,
    read,
    remaining_commands,
    report,
    run_status,
    stored,
)
from frn.reproduce.tables import TABLES, Cell, Measurement, Row, RunSpec, Table, choose_rows, find_table
from frn.system.hardware import processor
from frn.system.precision import choose_precision
from frn.training.loop import train
from frn.training.runs.run import RunSettings
from frn.training.runs.run_options import RunOptions
from tests.commands import frn

FLAGS = ("--way", "4", "--shot", "2", "--queries", "3", "--epochs", "2")
QUICK = ("--queries", "5", "--episodes", "20")
TINY = RunSpec(name="tiny", options=RunOptions(preset="cifar-fs-conv4-short", way=4, shot=2, queries=3, epochs=2))
PLAIN = Measurement(name="tiny", run=TINY, flags=QUICK, prepare="cifar-fs")
CENTRED = Measurement(name="centred", run=TINY, flags=("--method", "simpleshot", *QUICK), prepare="cifar-fs")


def at_both(label: str, measurement: Measurement, *published: tuple[float, ...]) -> Row:
    """Write one measurement for both shots."""
    one, five = published or ((), ())
    return Row(name=measurement.name, label=label, cells={1: Cell(measurement, *one), 5: Cell(measurement, *five)})


TABLE = Table(
    name="tiny",
    source="our own",
    title="A small one",
    rows=[at_both("FRN", PLAIN, (20.0, 0.5), (21.0,)), at_both("SimpleShot", CENTRED)],
)
OTHER = RunSpec(name="other", options=replace(TINY.options, seed=1))
AGAIN = Measurement(name="other", run=OTHER, flags=QUICK, prepare="cifar-fs")
TWO_SEEDS = replace(TABLE, rows=[*TABLE.rows, at_both("another seed", AGAIN)])


def half_a_run(moths: Path, out: Path, options: RunOptions) -> None:
    """Make the files that `frn train` leaves if it is stopped in its first epoch."""
    preset = options.overridden()
    images = load_images(scan(moths / "train"), preset.data.max_side)
    val = load_images(scan(moths / "val"), preset.transform)
    precision = choose_precision("auto", torch.device("cpu"))
    settings = RunSettings(precision=precision)
    ended = train(preset, images, val, out, settings, stop=lambda: True)
    assert not ended.finished


def run_here(command: Command) -> None:
    """Run a command in this process, which saves seconds."""
    answer = frn(*command.words)
    assert answer.exit_code == 0, answer.stderr
    if command.answer:
        command.answer.write_text(answer.stdout)


def test_interrupted_run_is_resumed_and_evaluated_once(
    moths: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TABLES, "tiny", TABLE)
    monkeypatch.setattr("frn.cli.train.reproduce.run_command", run_here)
    runs = tmp_path / "runs"
    half_a_run(moths, runs / "tiny", TINY.options)
    words = ("reproduce", "tiny", "--data", moths, "--runs", runs, "--out", tmp_path / "out", "--threads", 1)
    precision = choose_precision("auto", torch.device("cpu"))  # an unfinished run keeps its precision
    planned = frn(*words, "--dry-run").stdout.splitlines()
    best = runs / "tiny" / "best.safetensors"
    assert planned == [
        f"frn train cifar-fs-conv4-short {shlex.join(FLAGS)} --precision {precision} --data {moths} "
        f"--out {runs / 'tiny'} --resume --threads 1",
        f"frn eval {best} {shlex.join(QUICK)} --data {moths} --json --per-episode --threads 1",
        f"frn eval {best} --method simpleshot {shlex.join(QUICK)} --data {moths} --json --per-episode --threads 1",
    ]
    made = frn(*words, "--row", "tiny", "--json")
    assert made.exit_code == 0, made.stderr
    found = json.loads(made.stdout)
    assert json.loads((tmp_path / "out" / "tiny.json").read_text()) == found
    results = json.loads((runs / "tiny.json").read_text())["results"]
    figures = found["rows"][0]["figures"]
    assert [figures[shot]["accuracy"] for shot in ("1", "5")] == [result["accuracy"] for result in results]
    assert found["trained"] == [f"{processor()}, threads: 1, {precision}"]
    assert found["rows"][0]["commands"][0] == (
        f"frn train cifar-fs-conv4-short {shlex.join(FLAGS)} --precision {precision} --data cifar-fs --out runs/tiny"
    )
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    again = frn(
        *words[:2], "--row", "tiny", "--runs", runs, "--out", tmp_path / "again"
    )  # the data are no longer needed
    assert again.exit_code == 0
    assert again.stdout == (tmp_path / "out" / "tiny.md").read_text()
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before
    assert str(tmp_path) not in again.stdout
    first = results[0]
    assert f"| FRN | 20.00 ± 0.50 | {first['accuracy']:.2f} ± {first['ci95']:.2f} | 21.00 |" in again.stdout


def test_rows_measured_in_the_same_runs_folder_stay_in_the_table(
    moths: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TABLES, "tiny", TWO_SEEDS)
    monkeypatch.setattr("frn.cli.train.reproduce.run_command", run_here)
    words = ("reproduce", "tiny", "--data", moths, "--out", tmp_path / "out", "--threads", 1, "--json")
    first = json.loads(frn(*words, "--row", "tiny").stdout)
    assert "--seed 1" in frn(*words[:-1], "--dry-run").stdout
    assert frn(*words[:-1], "--row", "tiny", "--dry-run").stdout == ""
    second = json.loads(frn(*words, "--row", "other").stdout)
    assert second["rows"][0] == first["rows"][0]
    assert [line["row"] for line in second["rows"]] == ["tiny", "other"]
    assert json.loads(frn(*words, "--row", "tiny").stdout) == second


def test_failing_command_stops_only_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(TABLES, "tiny", replace(TABLE, rows=TABLE.rows[:1]))
    (tmp_path / "empty").mkdir()
    result = frn("reproduce", "tiny", "--data", tmp_path / "empty", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 1
    assert "failed with status 1" in json.loads(result.stdout)["rows"][0]["missing"]
    assert "has no folder 'train'" in capfd.readouterr().err  # the failed command prints its own message


def test_rows_without_data_are_skipped_with_the_command_to_make_it(tmp_path: Path) -> None:
    result = frn("reproduce", "class-split", "--out", tmp_path)
    assert result.exit_code == 0
    assert "cub-chen-resnet12: needs cub-raw-chen: `frn data prepare cub-raw --split chen --source" in result.stderr
    assert "| FRN, Chen et al. | 83.35 ± 0.18 |  | 93.28 ± 0.09 |  |" in (tmp_path / "class-split.md").read_text()


def test_wrong_names_give_a_one_line_error(tmp_path: Path) -> None:
    for words, reason in (
        (("ablations",), "unknown table 'ablations'. Did you mean ablation"),
        (("cifar-fs", "--row", "dns"), "has no row 'dns'. It has: frn, dummy-tuned"),
        (("cifar-fs", "--data", tmp_path / "none"), "none is not a folder"),
        (("cifar-fs", "--data", f"cub-rwa={tmp_path}"), "where NAME is a data set of these rows: cifar-fs"),
        (
            ("cross-domain", "--data", tmp_path),
            "where NAME is a data set of these rows: cub-raw, cub-raw-all, cub-raw-chen, mini-imagenet",
        ),
    ):
        result = frn("reproduce", *words)
        assert result.exit_code == 1
        assert reason in result.stderr


def test_a_folder_with_a_different_run_is_refused(moths: Path, tmp_path: Path) -> None:
    half_a_run(moths, tmp_path / "tiny", replace(TINY.options, method="proto"))
    locations = Locations(runs=tmp_path, data={"cifar-fs": moths})
    with pytest.raises(
        FrnError, match=r"contains a different run from .*\(.*method was proto and is frn\). Move it and its results"
    ):
        remaining_commands(TABLE.rows[0], locations)
    other = replace(TINY, name="other")
    half_a_run(moths, tmp_path / "other", replace(other.options, threads=1, queries=3))
    found = run_status(other, locations)
    assert found is not None
    assert not found.finished


def test_truncated_or_mistyped_answer_is_ignored(tmp_path: Path) -> None:
    locations = Locations(runs=tmp_path)
    result = {"shot": 1, "way": 5, "queries": 3, "episodes": 9, "accuracy": 50.0, "ci95": 1.0, "seconds": 1.0}
    good = {"results": [result], "seed": 0}
    texts = ["", '{"results": [{"sh', '{"results": []}', "[]", "5", '"l2"', '{"l2": {"a": {"mean": 1, "ci95": "x"}}}']
    for name, value in (("way", "5"), ("episodes", None), ("accuracy", "50"), ("ci95", [1]), ("accuracy", 1e999)):
        texts.append(json.dumps({**good, "results": [{**result, name: value}]}))
    for text in [*texts, json.dumps({**good, "seed": {}})]:
        (tmp_path / "tiny.json").write_text(text)
        assert stored(PLAIN, locations) is None, text
    (tmp_path / "tiny.json").write_text(json.dumps(good))
    answer = stored(PLAIN, locations)
    assert answer is not None
    assert answer.results[0]["accuracy"] == 50.0


def test_answer_of_an_earlier_model_is_ignored(tmp_path: Path) -> None:
    locations, model = Locations(runs=tmp_path), tmp_path / "tiny" / "best.safetensors"
    model.parent.mkdir()
    model.touch()
    result = {"shot": 1, "way": 5, "queries": 3, "episodes": 9, "accuracy": 50.0, "ci95": 1.0, "seconds": 1.0}
    (tmp_path / "tiny.json").write_text(json.dumps({"results": [result], "seed": 0}))
    assert stored(PLAIN, locations) is not None
    later = (tmp_path / "tiny.json").stat().st_mtime + 1
    os.utime(model, (later, later))
    assert stored(PLAIN, locations) is None


@pytest.mark.parametrize("name", ["cifar-fs", "cifar-fs-ablation", "cub-small"])
def test_committed_tables_are_what_the_command_writes(name: str) -> None:
    folder = assets_folder() / "benchmarks"
    found = read(folder / f"{name}.json")
    assert found is not None
    assert (folder / f"{name}.md").read_text() == markdown(found)
    assert found.note == TABLES[name].note
    said = [re.sub(" --precision (bf16|fp32)", "", command) for line in found.rows for command in line.commands]
    assert set(said) <= {command for row in TABLES[name].rows for command in commands(row)}


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ({"tiny": 6, "tiny-1": 7, "other": 4, "other-1": 5}, "behind"),
        ({"tiny": 6, "tiny-1": 5, "other": 5, "other-1": 4}, ""),
    ],
)
def test_a_method_is_behind_only_if_the_interval_and_all_seeds_say_so(
    tmp_path: Path, shares: dict[str, int], verdict: str
) -> None:
    """The interval is paired if every episode's answers are stored, and wider without them."""
    cells = {name: Measurement(name=name, run=TINY, prepare="cifar-fs") for name in shares}
    labels = ("FRN, seed 0", "FRN, seed 1", "Proto, seed 0", "Proto, seed 1")
    table = replace(TABLE, rows=[at_both(label, cells[name]) for label, name in zip(labels, shares, strict=True)])
    hard = np.random.default_rng(0).integers(0, 3, 200)
    for stored_answers in (True, False):
        for name, correct in shares.items():
            result = {"shot": 1, "way": 5, "queries": 2, "episodes": 200, "ci95": 2.0, "seconds": 1.0}
            result |= {"accuracy": 10.0 * (correct - hard).mean()}
            result |= {"correct": (correct - hard).tolist()} if stored_answers else {}
            (tmp_path / f"{name}.json").write_text(json.dumps({"results": [result], "seed": 0}))
        found = report(table, table.rows, Locations(runs=tmp_path), {})
        (compared,) = found.comparisons
        assert (compared.method, compared.shot, compared.paired) == ("Proto", "1", stored_answers)
        assert compared.difference == pytest.approx(
            10 * (sum([*shares.values()][2:]) - sum([*shares.values()][:2])) / 2
        )
        assert compared.ci95 == pytest.approx(0.0 if stored_answers else 8**0.5, abs=1e-9)
        assert compared.verdict == verdict
        assert "Minus FRN (mean over seeds)" in markdown(found)


def test_mistyped_table_is_ignored(tmp_path: Path) -> None:
    table = find_table("cifar-fs")
    whole = to_builtins(report(table, table.rows[:1], Locations(runs=tmp_path), {}))
    path = tmp_path / "table.json"
    figure = {"measurement": "x", "published": 1.0, "published_ci95": 1.0, "accuracy": "\ud800", "ci95": 1.0}
    line = {"row": "x", "label": "x", "figures": {"\ud800": figure}}
    changes: list[object] = [{}, [], {**whole, "rows": 5}, {**whole, "machine": "\ud800"}, {**whole, "rows": [line]}]
    for changed in changes:
        path.write_text(json.dumps(changed))
        found = read(path)
        assert found is None or found.machine == "\ud800"
    path.write_text(json.dumps(whole))
    assert read(path) is not None


def test_folder_with_a_checkpoint_from_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    model = assets_folder() / "models" / "conv4.safetensors"
    (tmp_path / "tiny" / "last.safetensors").write_bytes(model.read_bytes())
    with pytest.raises(FrnError, match=r"tiny: its last\.safetensors does not belong to a run\. Move it away"):
        run_status(TINY, Locations(runs=tmp_path))


def test_pre_training_comes_before_runs_that_start_from_it(tmp_path: Path) -> None:
    row = choose_rows(find_table("cifar-fs-ablation"), ["dummy-tuned"])[0]
    locations = Locations(runs=Path("r"), data={"cifar-fs": Path("d")})
    assert [str(command) for command in remaining_commands(row, locations)] == [
        "frn train cifar-fs-conv4-pretrain --epochs 24 --precision fp32 --data d --out r/dummy",
        "frn train cifar-fs-conv4-finetune --queries 5 --epochs 8 --init r/dummy/best.safetensors --precision fp32 "
        "--data d --out r/dummy-tuned",
        "frn eval r/dummy-tuned/best.safetensors --data d --json --per-episode",
    ]
    with pytest.raises(MissingDataError, match="needs cifar-fs"):
        remaining_commands(row, Locations(runs=tmp_path))
    assert Command(("eval", "a b"))
    assert str(Command(("eval", "a b"))) == "frn eval 'a b'"


def test_a_row_without_a_table_is_refused() -> None:
    assert "--row needs a TABLE to reproduce" in frn("reproduce", "--row", "nonsense").stderr
