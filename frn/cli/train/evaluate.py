"""`frn eval`: accuracy over random episodes."""

from typing import TYPE_CHECKING, Annotated

import typer

from frn.cli.shell import options
from frn.cli.shell.console import print_json, progress_bar, report_skipped, stdout
from frn.errors import FrnError

if TYPE_CHECKING:
    from frn.evaluation.accuracy import Result


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Model name, features.onnx, model file or run folder.",
            autocompletion=options.model_names,
        ),
    ],
    data: options.SplitData,
    split: options.Split = "test",
    way: Annotated[int, typer.Option(min=2, help="Classes per episode.")] = 5,
    shot: Annotated[
        list[int] | None, typer.Option(min=1, help="Support images per class. Repeatable.", show_default="1 and 5")
    ] = None,
    queries: Annotated[int, typer.Option(min=1, help="Query images per class.")] = 16,
    episodes: Annotated[int, typer.Option(min=1, help="Number of random episodes.")] = 10_000,
    seed: options.EpisodeSeed = 0,
    precision: Annotated[options.PrecisionName, typer.Option(help="Number format of the backbone.")] = "fp32",
    device: options.Device = "auto",
    threads: options.Threads = None,
    method: Annotated[str | None, typer.Option(help="Use a different, untrained head on the same backbone.")] = None,
    tta: options.TtaName = "none",
    tune: Annotated[bool, typer.Option("--tune", help="Also tune alpha and gamma for each episode.")] = False,
    transductive: Annotated[
        bool, typer.Option("--transductive", help="Also use each episode's queries to refine its classes.")
    ] = False,
    per_episode: Annotated[
        bool, typer.Option("--per-episode", help="With --json, also count correct answers by episode.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Evaluate a model on a benchmark: accuracy over random episodes, with its 95% confidence interval.

    Features are computed once per image, so 10,000 episodes take seconds. To score your own photos, use `frn score`.

    Several models answer the same episodes: each is compared with the first by a paired interval, and --json prints one
    line per model.

    --transductive evaluates the same episodes, and also episodes whose classes have unequal numbers of queries
    (Dirichlet 2), both with and without transductive inference.

    To set its parameters, --method simpleshot also reads train/, and --method frn also reads val/. logreg, ridge-loo,
    knn, nearest-mean, baseline and baseline++ are fitted to the pooled features of each episode; the last two take
    seconds per episode.
    """
    settings = {name: value for name, value in locals().items() if name not in ("models", "as_json")}
    if per_episode and not as_json:
        raise FrnError("--per-episode only applies to --json. Remove it or add --json.")
    if len(set(models)) < len(models):
        raise FrnError("a model is named twice. Name each model once.")
    settings["per_episode"] = per_episode or len(models) > 1
    from frn.evaluation.accuracy import paired_difference
    from frn.evaluation.evaluate_model import EvaluationOptions
    from frn.evaluation.evaluate_model import evaluate_model as run
    from frn.system.distributed import joined

    with joined(device) as ranks:
        if ranks.world > 1 and method == "simpleshot":
            raise FrnError("--method simpleshot needs a single process: run it without torchrun")
        measured = {
            model: run(
                EvaluationOptions(model=model, **settings),
                bars=progress_bar,
                warn=report_skipped if ranks.is_main else lambda reasons: None,
                ranks=ranks,
            )
            for model in models
        }
    if not ranks.is_main:
        return
    for results in [measured[model] for model in models[1:]]:
        for result, first in zip(results, measured[models[0]], strict=True):
            gain = paired_difference(result, first)
            result["difference"] = {"accuracy": gain.mean, "ci95": gain.ci95}
    for model, results in measured.items():
        for result in results if not per_episode else ():
            result.pop("correct", None)
        if as_json:
            named = {"model": model, **({"method": method} if method else {})}
            print_json({**named, "data": str(data), "split": split, "seed": seed, "results": results})
            continue
        if len(models) > 1:
            stdout().print(model)
        for result in results:
            _print(result)


def _print(result: "Result") -> None:
    """Print a result; below it, the difference from the first model, and the same episodes enrolled or transductive."""
    console = stdout()
    console.print(describe(result), markup=True)
    if "difference" in result:
        gain = result["difference"]
        console.print(f"  minus the first model: {gain['accuracy']:+.2f} ± {gain['ci95']:.2f} (paired)")
    if "tuned" in result:
        console.print(f"  as enrolled: {describe_accuracy(result['tuned'])}", markup=True)
    if "transductive" in result:
        accuracies = {name: describe_accuracy(each) for name, each in result["transductive"].items()}
        console.print(f"  transductive: {accuracies['balanced']}", markup=True)
        console.print(
            f"  unequal classes: {accuracies['dirichlet_inductive']}, transductive {accuracies['dirichlet']}",
            markup=True,
        )


def describe(result: "Result") -> str:
    """Describe one result as a line of rich markup."""
    return (
        f"{result['way']}-way {result['shot']}-shot  [bold]{result['accuracy']:.2f} ± {result['ci95']:.2f}%[/bold]  "
        f"({result['episodes']} episodes, {result['queries']} queries, {result['seconds']:.1f} s)"
    )


def describe_accuracy(result: "dict[str, float]") -> str:
    """Return accuracy and its interval as rich markup."""
    return f"[bold]{result['accuracy']:.2f} ± {result['ci95']:.2f}%[/bold]"
