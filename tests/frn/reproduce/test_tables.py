"""The tables from the paper and from this project: their rows, runs and figures."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from frn.data.prepare.published import BENCHMARKS
from frn.reproduce.table_report import Locations, commands, markdown, report
from frn.reproduce.tables import TABLES, Row, RunSpec
from frn.training.presets import PRESETS
from frn.training.runs.run_options import RunOptions
from tests.commands import frn


def test_photo_table_trains_every_row_with_the_same_budget() -> None:
    """All rows have an equal budget: the same number of images within 3%, augmentation, schedule and rate.

    Only covariance pooling, DeepBDC and SRM warm up the rate: their scales do not recover from the first steps. DeepBDC
    and MCL start from pre-trained weights, with a lower rate; the pre-training counts.
    """
    chains = [[run.options.overridden() for run in training_runs(row)] for row in TABLES["cub-small"].rows]
    pretrained = {chain[-1].method for chain in chains if len(chain) > 1}
    assert pretrained == {"deepbdc", "mcl-fine"}
    presets = [preset for chain in chains for preset in chain]
    assert len(chains) == 29
    assert {preset.augmentation for preset in presets} == {PRESETS["cub-cropped-conv4"].augmentation}
    assert {(preset.backbone, preset.last_pool, preset.transform.size) for preset in presets} == {("conv4", True, 84)}
    steady = replace(PRESETS["cub-cropped-conv4"].schedule, epochs=1, milestones=())
    for preset in presets:
        rising = {"covariance": 200, "deepbdc": 200, "srm": 50}.get(preset.method, 0)
        lr = 0.03 if preset.method in pretrained else 0.1
        assert replace(preset.schedule, epochs=1, milestones=()) == replace(steady, warm_up=rising, learning_rate=lr)
    images = {
        (None, 128): 35 * 128,  # 4,593 // 128 batches
        ((20, 5), 128): 21 * 20 * 10,  # episodes of an epoch on classes of 20 to 60 images, counted
        ((30, 1), 128): 24 * 30 * 6,
        ((20, 5), 84): 191 * 20 * 10,
    }
    for chain in chains:
        seen = 0
        for preset in chain:
            shape = (preset.episode.way, preset.episode.shot) if preset.trains_on_episodes else None
            seen += images[shape, preset.data.max_side] * preset.schedule.epochs
            assert preset.schedule.milestones == (round(preset.schedule.epochs / 2),)
        assert abs(seen - 420_000) < 0.03 * 420_000
    commands_of_all = [command for row in TABLES["cub-small"].rows for command in commands(row)]
    assert len(set(commands_of_all)) == 2 * len(chains) + 1  # one pre-training
    assert "frn train cub-small-conv4 --seed 2 --data cub --out runs/cub-frn-2" in commands_of_all


def training_runs(row: Row) -> list[RunSpec]:
    return [run for measurement in row.measurements for run in measurement.run.chain]


@pytest.mark.parametrize(
    ("preset", "asked", "given"),
    [
        ("cub-cropped-conv4", "auto", "fp32"),
        ("mini-imagenet-resnet12-pretrain", "auto", "fp32"),
        ("cub-small-conv4", "bf16", "bf16"),
        ("cifar-fs-conv4", "auto", "auto"),
    ],
)
def test_the_papers_recipes_train_in_float32_by_default(preset: str, asked: str, given: str) -> None:
    assert RunOptions(preset=preset, precision=asked).wanted_precision == given


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
    "pre-training-cub": "83.55/92.92 73.46/84.20 83.23/93.59",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_paper_tables_contain_the_published_figures(name: str) -> None:
    rows = [[cell.published for cell in row.cells.values()] for row in TABLES[name].rows]
    assert rows == [[float(figure) for figure in row.split("/")] for row in PUBLISHED[name].split()]


def test_every_row_refers_to_existing_presets_and_data_sets() -> None:
    names = [(table.name, row.name) for table in TABLES.values() for row in table.rows]
    assert len(set(names)) == len(names)
    for table in TABLES.values():
        assert table.rows or table.elsewhere
        for row in table.rows:
            for cell in row.cells.values():
                words = shlex.split(cell.measurement.prepare)
                if words[0] != "folder":
                    benchmark = BENCHMARKS[words[0]]
                    assert words[1:] in ([], ["cub"]) or (words[1] == "--split" and words[2] in benchmark.splits)
                assert all(run.options.preset in PRESETS for run in training_runs(row))


def test_measurements_of_other_commands_are_referenced(tmp_path: Path) -> None:
    table = TABLES["speed"]
    page = markdown(report(table, [], Locations(runs=tmp_path), {}))
    script, where = "`python assets/benchmarks/head.py --deepemd --whole`", "on one thread of a processor"
    assert f"| FRN by Eq. 8, meta-test | 63, 79 | {script} (FRN by Eq. 8, meta-test: {where}) |" in page
    assert f"{script} (DeepEMD by POT, meta-train: {where})" in page


def test_every_table_is_listed() -> None:
    listed = json.loads(frn("reproduce", "--json").stdout)
    assert [table["table"] for table in listed] == list(TABLES)
    text = frn("reproduce").stdout
    assert re.search(r"cub-cropped-conv4-no-aux +no Aux, Conv-4 +1-shot 68.38 ± 0.23, 5-shot 88.13 ± 0.13", text)


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"method": "srm"}, 50),
        ({"method": "deepbdc"}, 200),
        ({"method": "covariance"}, 200),
        ({"method": "proto"}, 0),
        ({"method": "srm", "warm_up": 0}, 0),
        ({"method": "srm", "init": Path("runs/pretrained")}, 50),  # the network's head is another one
    ],
)
def test_methods_whose_scale_does_not_recover_warm_up_by_default(options: dict[str, object], steps: int) -> None:
    chosen = RunOptions(preset="cub-small-conv4", **options)  # type: ignore[arg-type]
    assert chosen.overridden().schedule.warm_up == steps
