"""Tables: their rows, what is left to run, and what comes out."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from frn.cli.main import app
from frn.data.cache import load_images
from frn.data.folders import scan
from frn.data.prepare import BENCHMARKS
from frn.errors import FrnError
from frn.hardware import processor
from frn.numerics import choose_precision
from frn.reproduce.in_paper import REGENERATED_FROM
from frn.reproduce.page import markdown
from frn.reproduce.plan import (
    Command,
    Locations,
    MissingDataError,
    measurements,
    remaining_commands,
    run_status,
    stored,
)
from frn.reproduce.quoted import QUOTED
from frn.reproduce.report import Report, commands, report
from frn.reproduce.rows import Cell, DecoderSpec, Measurement, Regeneration, Row, RunSpec, Table, at_both
from frn.reproduce.tables import TABLES, choose_rows, find_table
from frn.training.loop import train
from frn.training.options import RunOptions
from frn.training.presets import PRESETS
from frn.training.run import RunSettings

FLAGS = ("--way", "4", "--shot", "2", "--queries", "3", "--epochs", "2")
QUICK = ("--queries", "5", "--episodes", "20")
TINY = RunSpec(name="tiny", options=RunOptions(preset="cifar-fs-conv4-short", way=4, shot=2, queries=3, epochs=2))
PLAIN = Measurement(name="tiny", run=TINY, flags=QUICK, prepare="cifar-fs")
CENTRED = Measurement(name="centred", run=TINY, flags=("--method", "simpleshot", *QUICK), prepare="cifar-fs")
TABLE = Table(
    name="tiny",
    source="our own",
    title="A small one",
    rows=[at_both("FRN", PLAIN, ((20.0, 0.5), (21.0,))), at_both("SimpleShot", CENTRED)],
)


def frn(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def half_a_run(moths: Path, out: Path, options: RunOptions) -> None:
    """What `frn train` leaves when it is stopped in its first epoch."""
    preset = options.overridden()
    images = load_images(scan(moths / "train"), preset.data.max_side)
    val = load_images(scan(moths / "val"), preset.transform)
    precision = choose_precision("auto", torch.device("cpu"))
    settings = RunSettings(precision=precision)
    ended = train(preset, images, val, out, settings, stop=lambda: True)
    assert not ended.finished


def run_here(command: Command) -> None:
    """Run a command without the seconds that a process of its own takes."""
    answer = frn(*command.words)
    assert answer.exit_code == 0, answer.stderr
    if command.answer:
        command.answer.write_text(answer.stdout)


def test_a_half_done_run_is_resumed_evaluated_and_afterwards_only_reported(
    moths: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TABLES, "tiny", TABLE)
    runs = tmp_path / "runs"
    half_a_run(moths, runs / "tiny", TINY.options)
    words = ("reproduce", "tiny", "--data", moths, "--runs", runs, "--out", tmp_path / "out", "--threads", 1)
    precision = choose_precision("auto", torch.device("cpu"))  # a half-done run keeps its own
    planned = frn(*words, "--dry-run").stdout.splitlines()
    best = runs / "tiny" / "best.safetensors"
    assert planned == [
        f"frn train cifar-fs-conv4-short {shlex.join(FLAGS)} --precision {precision} --data {moths} "
        f"--out {runs / 'tiny'} --resume --threads 1",
        f"frn eval {best} {shlex.join(QUICK)} --data {moths} --json --threads 1",
        f"frn eval {best} --method simpleshot {shlex.join(QUICK)} --data {moths} --json --threads 1",
    ]
    made = frn(*words, "--row", "tiny", "--json")
    assert made.exit_code == 0, made.stderr
    found = json.loads(made.stdout)
    assert json.loads((tmp_path / "out" / "tiny.json").read_text()) == found
    results = json.loads((runs / "tiny.json").read_text())["results"]
    figures = found["rows"][0]["figures"]
    assert [figures[shot]["accuracy"] for shot in ("1", "5")] == [result["accuracy"] for result in results]
    assert found["runs"]["tiny"]["machine"] == f"{processor()}, threads: 1"
    assert found["runs"]["tiny"]["command"] == (
        f"frn train cifar-fs-conv4-short {shlex.join(FLAGS)} --data cifar-fs --out runs/tiny"
    )
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    again = frn(*words[:2], "--row", "tiny", "--runs", runs, "--out", tmp_path / "again")  # no data needed any more
    assert again.exit_code == 0
    assert again.stdout == (tmp_path / "out" / "tiny.md").read_text()
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before
    assert str(tmp_path) not in again.stdout
    first = results[0]
    assert f"| FRN | 20.00 ± 0.50 | {first['accuracy']:.2f} ± {first['ci95']:.2f} | 21.00 |" in again.stdout


def test_a_row_of_an_earlier_table_stays_in_it_without_its_run(
    moths: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = RunSpec(name="other", options=replace(TINY.options, seed=1))
    rows = [*TABLE.rows, at_both("another seed", Measurement(name="other", run=other, flags=QUICK, prepare="cifar-fs"))]
    monkeypatch.setitem(TABLES, "tiny", replace(TABLE, rows=rows))
    monkeypatch.setattr("frn.cli.reproduce._run", run_here)
    words = ("reproduce", "tiny", "--data", moths, "--out", tmp_path / "out", "--threads", 1, "--json")
    first = json.loads(frn(*words, "--runs", tmp_path / "a", "--row", "tiny").stdout)
    assert "--seed 1" in frn(*words, "--runs", tmp_path / "b", "--dry-run").stdout
    assert not frn(*words, "--runs", tmp_path / "b", "--row", "tiny", "--dry-run").stdout
    second = json.loads(frn(*words, "--runs", tmp_path / "b", "--row", "other").stdout)
    assert second["rows"][0] == first["rows"][0]
    assert [line["row"] for line in second["rows"]] == ["tiny", "other"]
    assert set(second["runs"]) == set(second["measurements"]) == {"tiny", "other"}
    assert second["runs"]["tiny"] == first["runs"]["tiny"]
    assert json.loads(frn(*words, "--runs", tmp_path / "b", "--row", "tiny").stdout) == second
    (tmp_path / "out" / "tiny.json").write_text(json.dumps(second)[:-50])
    assert "frn train" in frn(*words, "--runs", tmp_path / "c", "--row", "tiny", "--dry-run").stdout


def test_a_command_that_fails_stops_its_row_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(TABLES, "tiny", replace(TABLE, rows=TABLE.rows[:1]))
    (tmp_path / "empty").mkdir()
    result = frn("reproduce", "tiny", "--data", tmp_path / "empty", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 1
    assert "failed with status 1" in json.loads(result.stdout)["rows"][0]["missing"]
    assert "has no folder 'train'" in capfd.readouterr().err  # the command's own message


def test_rows_without_data_say_what_makes_it_and_are_skipped(tmp_path: Path) -> None:
    result = frn("reproduce", "class-split", "--out", tmp_path)
    assert result.exit_code == 0
    assert "cub-chen-resnet12: needs cub-raw-chen: `frn data prepare cub-raw --split chen --source" in result.stderr
    assert "| FRN, Chen et al. | 83.35 ± 0.18 |  | 93.28 ± 0.09 |  |  |" in (tmp_path / "class-split.md").read_text()


def test_a_data_set_that_no_chosen_row_needs_is_a_note(tmp_path: Path) -> None:
    words = ("reproduce", "cifar-fs", "--row", "frn", "--data", f"cub={tmp_path}", "--out", tmp_path / "out")
    result = frn(*words, "--dry-run")
    assert result.exit_code == 0
    assert f"--data cub={tmp_path}: is not needed, these rows have cifar-fs" in result.stderr


def test_a_decoder_is_trained_on_a_run_and_its_errors_are_a_row(
    moths: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = DecoderSpec(name="decoder", init=TINY, epochs=2, batch=40)
    flags = ("--split", "val", "--shot", "2", "--trials", "4")
    regeneration = Regeneration(name="decoder", run=decoder, flags=flags, prepare="cifar-fs")
    longer = replace(regeneration, run=replace(decoder, epochs=3))
    cells: dict[int | str, Cell] = dict.fromkeys(REGENERATED_FROM, Cell(regeneration, 0.2))
    row = Row(name="decoder", label="moths", cells=cells)
    monkeypatch.setitem(TABLES, "tiny", replace(TABLE, rows=[row], unit="of the error", digits=3))
    monkeypatch.setattr("frn.cli.reproduce._run", run_here)
    runs, out = tmp_path / "runs", tmp_path / "out"
    words = ("reproduce", "tiny", "--data", moths, "--runs", runs, "--out", out, "--threads", 1)
    planned = frn(*words, "--dry-run").stdout.splitlines()
    best = runs / "tiny" / "best.safetensors"
    assert planned[1:] == [
        f"frn visualize train {best} --epochs 2 --batch 40 --precision fp32 --data {moths} --out {runs / 'decoder'} "
        "--threads 1",
        f"frn visualize render {best} --decoder {runs / 'decoder'} {shlex.join(flags)} --out {runs / 'decoder.png'} "
        f"--data {moths} --json --threads 1",
    ]
    made = frn(*words, "--json")
    assert made.exit_code == 0, made.stderr
    found = json.loads(made.stdout)
    errors = json.loads((runs / "decoder.json").read_text())["l2"]
    figures = found["rows"][0]["figures"]
    assert {name: (f["accuracy"], f["ci95"]) for name, f in figures.items()} == {
        name: (error["mean"], error["ci95"]) for name, error in errors.items()
    }
    assert found["measurements"]["decoder"]["episodes"] == 4
    assert list(found["runs"]) == ["tiny", "decoder"]
    assert (runs / "decoder.png").is_file()
    truth = errors["ground_truth"]
    page = (out / "tiny.md").read_text()
    assert f"| moths | 0.200 | {truth['mean']:.3f} ± {truth['ci95']:.3f} | 0.200 |" in page
    assert "mean and 95 % interval of the error." in page
    assert "| | ground truth published | ground truth here | same class published |" in page
    assert "frn visualize train runs/tiny --epochs 2 --batch 40 --data cifar-fs --out runs/decoder\n" in page
    assert not frn(*words, "--dry-run").stdout
    assert frn(*words[:2], "--runs", runs, "--out", out).stdout == page
    (runs / "decoder.json").unlink()
    monkeypatch.setitem(TABLES, "tiny", replace(TABLE, rows=[replace(row, cells={"ground_truth": Cell(longer)})]))
    refused = frn(*words, "--row", "decoder", "--dry-run")
    assert "holds another run than `frn visualize train" in refused.stderr
    assert "epochs was 2 and is 3" in refused.stderr


def test_wrong_names_get_one_clear_line(tmp_path: Path) -> None:
    for words, reason in (
        (("ablations",), "unknown table 'ablations'. Did you mean ablation"),
        (("cifar-fs", "--row", "dns"), "has no row 'dns'. It has: frn, dummy-tuned"),
        (("cifar-fs", "--data", tmp_path / "none"), "there is no folder"),
        (("cifar-fs", "--data", f"cub-rwa={tmp_path}"), "no table has a data set 'cub-rwa' (these rows have cifar-fs)"),
        (("cross-domain", "--data", tmp_path), "say which of cub-raw, cub-raw-all, cub-raw-chen, mini-imagenet"),
    ):
        result = frn("reproduce", *words)
        assert result.exit_code == 1
        assert reason in result.stderr


def test_a_folder_with_another_run_is_refused(moths: Path, tmp_path: Path) -> None:
    half_a_run(moths, tmp_path / "tiny", replace(TINY.options, method="proto"))
    locations = Locations(runs=tmp_path, data={"cifar-fs": moths})
    with pytest.raises(FrnError, match=r"holds another run than .*\(.*method was proto and is frn\). Move it away"):
        remaining_commands(TABLE.rows[0], locations)
    other = replace(TINY, name="other")
    half_a_run(moths, tmp_path / "other", replace(other.options, threads=1, queries=3))
    found = run_status(other, locations)
    assert found is not None
    assert not found.finished


def test_an_answer_that_is_cut_off_does_not_count(tmp_path: Path) -> None:
    locations = Locations(runs=tmp_path)
    for torn in ("", '{"results": [{"sh', '{"results": []}', "[]"):
        (tmp_path / "tiny.json").write_text(torn)
        assert stored(PLAIN, locations) is None


def test_pre_training_comes_before_what_starts_from_it(tmp_path: Path) -> None:
    row = choose_rows(find_table("cifar-fs-ablation"), ["dummy-tuned"])[0]
    locations = Locations(runs=Path("r"), data={"cifar-fs": Path("d")})
    assert [str(command) for command in remaining_commands(row, locations)] == [
        "frn pretrain cifar-fs-conv4-pretrain --epochs 24 --precision fp32 --data d --out r/dummy",
        "frn train cifar-fs-conv4-finetune --queries 5 --epochs 8 --init r/dummy/best.safetensors --precision fp32 "
        "--data d --out r/dummy-tuned",
        "frn eval r/dummy-tuned/best.safetensors --data d --json",
    ]
    with pytest.raises(MissingDataError, match="needs cifar-fs"):
        remaining_commands(row, Locations(runs=tmp_path))
    assert Command(("eval", "a b"))
    assert str(Command(("eval", "a b"))) == "frn eval 'a b'"


OWN_RUNS = """
frn: train cifar-fs-conv4-short
proto: train cifar-fs-conv4-short --method proto
dsn: train cifar-fs-conv4-short --method dsn
ctx: train cifar-fs-conv4-short --method ctx
r2d2: train cifar-fs-conv4-short --method ridge
covariance: train cifar-fs-conv4-short --method covariance
bifrn: train cifar-fs-conv4-short --method bifrn
average: pretrain cifar-fs-conv4-average --epochs 24
dummy: pretrain cifar-fs-conv4-pretrain --epochs 24
no-aux: train cifar-fs-conv4-short --aux off
aux-paper: train cifar-fs-conv4-short --aux paper
fix-lambda: train cifar-fs-conv4-short --fix lambda
fix-rho: train cifar-fs-conv4-short --fix rho
fix-both: train cifar-fs-conv4-short --fix both
one-shot: train cifar-fs-conv4-short --way 30 --shot 1 --warm-up 200
dummy-tuned: train cifar-fs-conv4-finetune --queries 5 --epochs 8 --init runs/dummy
average-tuned: train cifar-fs-conv4-finetune --queries 5 --epochs 8 --init runs/average
proto-1: train cifar-fs-conv4-short --method proto --way 30 --shot 1
ctx-1: train cifar-fs-conv4-short --method ctx --way 30 --shot 1
dsn-1: train cifar-fs-conv4-short --method dsn --way 30 --shot 1
r2d2-1: train cifar-fs-conv4-short --method ridge --way 30 --shot 1
covariance-1: train cifar-fs-conv4-short --method covariance --way 30 --shot 1
"""


def test_the_table_on_photos_trains_every_row_alike() -> None:
    """Equal budget: the same number of images within 3 %, the same augmentation, schedule, rate and precision."""
    presets = [run.options.overridden() for row in TABLES["cub-small"].rows for run in training_runs(row)]
    assert len(presets) == 17
    assert {preset.augmentation for preset in presets} == {PRESETS["cub-cropped-conv4"].augmentation}
    assert {(preset.backbone, preset.last_pool, preset.transform.size) for preset in presets} == {("conv4", True, 84)}
    assert {replace(preset.schedule, epochs=1, milestones=()) for preset in presets} == {
        replace(PRESETS["cub-cropped-conv4"].schedule, epochs=1, milestones=())
    }
    images = {
        (None, 128): 35 * 128,  # 4,593 // 128 batches
        ((20, 5), 128): 21 * 20 * 10,  # episodes of an epoch on classes of 20 to 60 images, counted
        ((30, 1), 128): 24 * 30 * 6,
        ((20, 5), 84): 191 * 20 * 10,
    }
    for preset in presets:
        shape = (preset.episode.way, preset.episode.shot) if preset.trains_on_episodes else None
        seen = images[shape, preset.data.max_side] * preset.schedule.epochs
        assert abs(seen - 420_000) < 0.03 * 420_000
        assert preset.schedule.milestones == (round(preset.schedule.epochs / 2),)
    commands_of_all = [command for row in TABLES["cub-small"].rows for command in commands(row)]
    assert len(set(commands_of_all)) == 2 * 17
    assert "frn train cub-small-conv4 --seed 2 --data cub --out runs/cub-frn-2" in commands_of_all


def training_runs(row: Row) -> list[RunSpec]:
    return [run for measurement in measurements(row) for run in measurement.run.chain if isinstance(run, RunSpec)]


@pytest.mark.parametrize(
    ("preset", "asked", "given"),
    [
        ("cub-cropped-conv4", "auto", "fp32"),
        ("mini-imagenet-resnet12-pretrain", "auto", "fp32"),
        ("cub-small-conv4", "bf16", "bf16"),
        ("cifar-fs-conv4", "auto", "auto"),
    ],
)
def test_the_papers_recipes_are_trained_in_float32_unless_asked(preset: str, asked: str, given: str) -> None:
    assert RunOptions(preset=preset, precision=asked).wanted_precision == given


def test_our_own_tables_are_these_runs() -> None:
    called = {
        command for name in ("cifar-fs", "cifar-fs-ablation") for row in TABLES[name].rows for command in commands(row)
    }
    wanted = dict(line.split(": ") for line in OWN_RUNS.strip().splitlines())
    training = {f"frn {command} --data cifar-fs --out runs/{name}" for name, command in wanted.items()}
    answers = {f"frn eval runs/{name} --data cifar-fs --json" for name in wanted}
    assert called == training | answers | {"frn eval runs/average --method simpleshot --data cifar-fs --json"}


PUBLISHED = {
    "cub-cropped": "63.21/83.88 66.01/85.41 69.64/87.31 73.48/88.43 79.09/90.59 80.80/91.19 78.47/90.90 83.16/92.59",
    "cub-raw": "78.60/89.73 79.96/91.41 79.34/91.42 83.55/92.92",
    "aircraft": "47.72/69.42 49.63/66.36 49.67/69.06 53.20/71.17 66.57/82.37 68.16/81.85 65.60/80.20 70.17/83.81",
    "meta-inat": "55.34/76.43 57.15/77.20 58.08/77.38 60.03/78.80 62.42/80.45 "
    "34.34/57.13 36.06/57.48 36.82/60.11 36.83/60.84 43.91/63.36",
    "imagenet": "66.45/82.83 71.16/86.01 72.06/86.89",
    "cross-domain": "54.11/77.09 51.60/72.97 53.39/75.16",
    "pre-training": "63.03/78.01 59.43/70.88 62.13/76.28 60.97/75.11 66.45/82.83",
    "training-shot": "68.27 73.48 50.25 53.20 60.04 62.42 40.11 43.91 "
    "82.62 83.16 82.02 83.55 69.40 70.17 65.33 66.45 70.88 72.06",
    "ablation": "68.38/88.13 66.44/84.05 67.34/87.60 66.19/83.27 68.27/88.43 "
    "82.20/92.65 82.40/93.12 82.58/92.79 82.80/93.33 82.62/92.59",
    "class-split": "83.55/92.92 83.35/93.28",
    "decoder": "0.208/0.343/0.385 0.177/0.307/0.337",
    "pre-training-cub": "83.55/92.92 73.46/84.20 83.23/93.59",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_papers_tables_have_its_figures(name: str) -> None:
    rows = [[cell.published for cell in row.cells.values()] for row in TABLES[name].rows]
    assert rows == [[float(figure) for figure in row.split("/")] for row in PUBLISHED[name].split()]


def test_every_figure_of_tables_11_and_12_has_its_interval() -> None:
    """Tables 3, 5 and 6 print none for FRN; these two do."""
    cells = {
        (table, row.name, shot): cell.published_ci95
        for table in ("training-shot", "ablation")
        for row in TABLES[table].rows
        for shot, cell in row.cells.items()
    }
    assert None not in cells.values()
    assert cells["training-shot", "tiered-meta-inat-conv4", 1] == 0.19
    assert cells["ablation", "cub-cropped-conv4", 1] == 0.23  # trained at 1 shot
    assert cells["ablation", "cub-cropped-conv4", 5] == 0.13
    assert cells["ablation", "cub-cropped-resnet12", 5] == 0.10


def test_rows_of_other_papers_stand_beside(tmp_path: Path) -> None:
    assert {name: len(quoted) for name, quoted in QUOTED.items()} == {
        "cub-cropped": 7,
        "cub-raw": 9,
        "imagenet": 31,
        "cross-domain": 12,
        "training-shot": 9,
        "class-split": 4,
    }
    assert QUOTED.keys() <= TABLES.keys()
    table = TABLES["cross-domain"]
    found = report(table, table.rows, Locations(runs=tmp_path), {})
    page = markdown(found, table)
    assert "| SimpleShot | ResNet-18 | 48.56 | 65.63 |" in page
    assert "| MAML | ResNet-18 |  | 51.34 ± 0.72 |" in page
    assert Report.from_json(json.loads(json.dumps(found.as_json()))) == found


def test_every_row_names_presets_and_data_sets_that_exist() -> None:
    names = [(table.name, row.name) for table in TABLES.values() for row in table.rows]
    assert len(set(names)) == len(names)
    for table in TABLES.values():
        assert table.rows or table.elsewhere
        for row in table.rows:
            for cell in row.cells.values():
                words = shlex.split(cell.measurement.prepare)
                if words[0] != "folder":
                    benchmark = BENCHMARKS[words[0]]
                    assert words[1:] == [] or (words[1] == "--split" and words[2] in benchmark.splits)
                assert all(run.options.preset in PRESETS for run in training_runs(row))


def test_what_another_command_measures_is_told(tmp_path: Path) -> None:
    table = TABLES["speed"]
    page = markdown(report(table, [], Locations(runs=tmp_path), {}), table)
    here = "`frn bench emd --whole` (FRN by Eq. 8, meta-test: on one thread of a processor)"
    assert f"| FRN by Eq. 8, meta-test | 63, 79 | {here} |" in page
    assert "`frn bench emd --whole` (DeepEMD by POT, meta-train: on one thread of a processor)" in page


def test_every_table_is_listed() -> None:
    listed = json.loads(frn("reproduce", "--list", "--json").stdout)
    assert [table["table"] for table in listed] == list(TABLES)
    text = frn("reproduce", "ablation", "--list").stdout
    assert re.search(r"cub-cropped-conv4-no-aux +no Aux, Conv-4 +1-shot 68.38 ± 0.23, 5-shot 88.13 ± 0.13", text)
