"""Where a model fails on a data set, as one self-contained page: the accuracy of `frn eval` with its details.

    python assets/reports/evaluate.py resnet12-small --data data/cifar-fs --out eval.html

The page has the accuracy of each class, calibration, confusion, known against unknown photos, and the hardest photos
and episodes. It contains the photos, so whoever gets the file can see them. Its numbers are those of `frn eval`.
"""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from inspection.evaluation_page import evaluation_page
from inspection.findings import Findings, find

from frn.cli.shell import options
from frn.cli.shell.console import check_report, progress_bar, report_skipped, user_errors
from frn.cli.train.evaluate import describe
from frn.evaluation.evaluate_model import EvaluationOptions, evaluate
from frn.report.page import write_page


def main(
    model: Annotated[str, typer.Argument(help="Model name, features.onnx, model file or run folder.")],
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
    replace: options.Replace = False,
) -> None:
    """Write a page of a model's results over random episodes."""
    with user_errors():
        check_report(out, replace=replace)
        findings: list[Findings] = []
        results = evaluate(
            EvaluationOptions(
                model=model,
                data=data,
                split=split,
                way=way,
                shot=shot,
                queries=queries,
                episodes=episodes,
                seed=seed,
                device=device,
                threads=threads,
            ),
            bars=progress_bar,
            warn=report_skipped,
            inspect=lambda shown: findings.append(find(shown)),
        )
        facts = {"model": model, "data": str(data), "split": split, "seed": str(seed)}
        write_page(out, evaluation_page(model, findings, shlex.join(["python", *sys.argv]), facts))
        for result in results:
            print(describe(result).replace("[bold]", "").replace("[/bold]", ""))
        print(out)


if __name__ == "__main__":
    typer.run(main)
