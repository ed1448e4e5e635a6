"""Write a self-contained HTML page that shows where a model fails on a data set.

    python assets/reports/evaluate.py resnet12-small --data data/cifar-fs --out eval.html

The page shows the accuracy of each class, the calibration, frequent confusions, how well unknown photos are detected,
and the hardest photos and episodes. The page contains the photos, so anyone who has the file can see them. The page
shows the same accuracy as `frn eval`.
"""

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from inspection.evaluation_page import evaluation_page
from inspection.findings import Inspection, find
from inspection.open_set import describe_unknown, doubled, measure_open_set
from inspection.tallies import Tally

from frn.cli.shell import options
from frn.cli.shell.console import check_report, progress_bar, report_skipped, user_errors
from frn.cli.train.evaluate import describe
from frn.data.folders import scan, split_folder
from frn.data.pixel_cache import load_images
from frn.episodes import EpisodeShape, check_classes
from frn.errors import FrnError
from frn.evaluation.accuracy import as_result, summarise
from frn.evaluation.episodes import episode_accuracies
from frn.evaluation.features import TorchExtractor
from frn.heads.frn import FRNHead
from frn.models.model import load_model
from frn.report.page import write_page
from frn.ridge.parameters import HeadParameters
from frn.system.precision import choose_device, set_threads


def main(
    model: Annotated[str, typer.Argument(help="Model name, model file or run folder.")],
    data: options.SplitData,
    out: Annotated[Path, typer.Option(help="Page to write (.html).")],
    split: options.Split = "test",
    way: Annotated[int, typer.Option(min=2, help="Classes per episode.")] = 5,
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Support images per class. Repeatable.")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Query images per class.")] = 16,
    episodes: Annotated[int, typer.Option(min=1, help="Number of random episodes.")] = 10_000,
    seed: options.EpisodeSeed = 0,
    device: options.Device = "auto",
    threads: options.Threads = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Also measure how well unknown classes are detected.")
    ] = False,
    replace: options.Replace = False,
) -> None:
    """Write a page with a model's results over random episodes."""
    with user_errors():
        check_report(out, replace=replace)
        folders = scan(split_folder(data, split))
        set_threads(threads)
        where = choose_device(device)
        extractor = TorchExtractor(load_model(model), "fp32", where)
        if extractor.model.config.untrained_head:
            raise FrnError(f"{model}: has an untrained head, which `frn eval` tunes on the validation split")
        with progress_bar(f"decoding {split}") as decoding:
            images = load_images(folders, extractor.transform, progress=decoding)
        report_skipped(images.broken)
        shapes = [EpisodeShape(way=way, shot=k, queries=queries) for k in shot or (1, 5)]
        for shape in shapes:
            needed = doubled(shape) if unknown else shape
            check_classes(images.names, images.sizes, needed, where=str(folders.root), every_class=True)
        with progress_bar("features") as extracting:
            maps, head = extractor.extract(images, extracting), extractor.new_head()
        if unknown and not isinstance(head, FRNHead):
            raise FrnError("--unknown needs a model trained with --method frn: it measures what is reconstructed")
        findings = []
        for shape in shapes:
            began, tally = time.perf_counter(), Tally(images.sizes, shape, episodes)
            with progress_bar(str(shape)) as scoring:
                found = episode_accuracies(
                    *(head, maps, images.sizes, shape),
                    episodes=range(episodes),
                    seed=seed,
                    progress=scoring,
                    observe=tally.add,
                )
            result = as_result(summarise(found), shape, time.perf_counter() - began)
            findings.append(find(Inspection(result, seed, head, maps, images, tally)))
        facts = {"model": model, "data": str(data), "split": split, "seed": str(seed)}
        write_page(out, evaluation_page(model, findings, shlex.join(["python", *sys.argv]), facts))
        for part in findings:
            print(describe(part.result).replace("[bold]", "").replace("[/bold]", ""))
        for shape in shapes if unknown else ():
            assert isinstance(head, FRNHead)
            learned, arrays = HeadParameters.of(head), maps.cpu().numpy()
            judged = measure_open_set(learned, arrays, images.sizes, shape, episodes=episodes, seed=seed)
            print(f"{shape}: {describe_unknown(judged)}")
        print(out)


if __name__ == "__main__":
    typer.run(main)
