"""`frn bench finetune` and `temperature`: what is measured on folders of photos."""

import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from frn.cli.shell.console import note, print_table, progress_bar, stdout, user_errors
from frn.cli.shell.options import Device, Precision, Threads
from frn.cli.shell.output import AsJson, Format, chosen_format, printed, rows_of
from frn.models.zoo import DEFAULT_MODEL, resolve

Pools = Annotated[
    list[str],
    typer.Argument(
        metavar="POOL...", help=f"Folder of class folders, or several joined by {os.pathsep!r}: a draw each."
    ),
]


def finetune(
    pools: Pools,
    model: Annotated[str, typer.Option(help="What to start from: shipped name, model file, run.")] = DEFAULT_MODEL,
    photos: Annotated[int, typer.Option(min=21, help="Photos of a class at most.")] = 60,
    episodes: Annotated[int, typer.Option(min=1, help="Test episodes.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of the first draw; each has the next.")] = 0,
    precision: Precision = "auto",
    device: Device = "auto",
    threads: Threads = 1,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """`frn finetune` on 18 classes of a pool, with 6 to validate on: accuracy on 6 others, before and after."""
    with user_errors():
        wants = chosen_format(form, as_json)
        resolve(model)
        from frn.bench.finetuning import TEST, measure_gain
        from frn.training.runs.run_options import RunOptions

        common = RunOptions(preset="finetune", init=model, precision=precision, device=device, threads=threads)
        gains = []
        with progress_bar("draws") as show:
            for number, pool in enumerate(pools):
                roots = _roots(pool)
                options = replace(common, seed=seed + number)
                gains.append(measure_gain(roots, options, photos=photos, episodes=episodes))
                note(str(gains[-1]))
                show(len(gains), len(pools))
    mean = sum(gain.gain.mean for gain in gains) / len(gains)
    draws = [gain.as_json() for gain in gains]
    if printed(wants, {"model": model, "threads": threads, "draws": draws, "gain": mean}, rows_of(draws)):
        return
    print_table(("pool", "seed", "validation", "test", "gain", "minutes", "of a processor"), (g.row for g in gains))
    stdout().print(f"{model}, {TEST} with {TEST.queries} queries, {episodes} episodes; mean gain {mean:+.2f} points")


def temperature(
    pools: Pools,
    model: Annotated[str, typer.Option(help="Model file, run folder or shipped name.")] = DEFAULT_MODEL,
    way: Annotated[list[int] | None, typer.Option(min=2, help="Classes.", show_default="5 and 10")] = None,
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Photos each.", show_default="1, 2, 3 and 5")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Query photos per class.")] = 6,
    episodes: Annotated[int, typer.Option(min=1, help="Random episodes per row.")] = 24,
    seed: Annotated[int, typer.Option(min=0, help="Of classes and episodes.")] = 0,
    threads: Threads = 1,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """Calibration of probabilities at few shots, with gamma as learned and with its temperature: 30 classes a draw."""
    with user_errors():
        wants = chosen_format(form, as_json)
        resolve(model)
        from frn.bench.temperature import measure_calibration
        from frn.episodes import EpisodeShape
        from frn.evaluation.features import TorchExtractor
        from frn.models.model import load_model
        from frn.system.precision import set_threads

        set_threads(threads)
        extractor = TorchExtractor(load_model(model))
        shapes = [
            EpisodeShape(way=n, shot=k, queries=queries) for n, k in product(way or (5, 10), shot or (1, 2, 3, 5))
        ]
        found = []
        with progress_bar("draws") as show:
            for pool in pools:
                found += measure_calibration(_roots(pool), extractor, shapes, episodes=episodes, seed=seed)
                show(len(found), len(pools) * len(shapes))
    rows = [entry.as_json() for entry in found]
    if printed(wants, {"model": model, "rows": rows}, rows):
        return
    print_table(
        ("pool", "way", "shot", "accuracy", "error, learned gamma", "error, tempered"),
        (
            (c.pool, str(c.way), str(c.shot), f"{c.accuracy:.1f} %", f"{c.learned:.1f}", f"{c.tempered:.1f}")
            for c in found
        ),
    )
    stdout().print(
        f"{model}, {episodes} episodes a row, {queries} queries per class; expected calibration error in points"
    )


def _roots(pool: str) -> list[Path]:
    return [Path(root) for root in pool.split(os.pathsep)]
