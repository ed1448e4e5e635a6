"""`frn eval`: accuracy over random episodes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frn.cli.choices import Device, Method, PrecisionChoice
from frn.cli.console import print_json, progress_bar, report_left_out, stdout, user_errors
from frn.hardware import leave_threads_to_torch

if TYPE_CHECKING:
    import torch

    from frn.evaluation.open_set import Unknown
    from frn.evaluation.report import Result
    from frn.model import Model
    from frn.numerics import Precision


def evaluate(
    model: Annotated[str, typer.Argument(help="Model file, run folder, shipped name or features.onnx.")],
    data: Annotated[Path, typer.Option(help="Data set with a folder per split, each with one folder per class.")],
    split: Annotated[str, typer.Option(help="Which split.")] = "test",
    way: Annotated[int, typer.Option(min=2, help="Classes per episode.")] = 5,
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Repeat for several.", show_default="1 and 5")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Query images per class.")] = 16,
    episodes: Annotated[int, typer.Option(min=1, help="Random episodes per shot.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed draws the same episodes.")] = 0,
    precision: Annotated[PrecisionChoice, typer.Option(help="Of the backbone.")] = "fp32",
    device: Annotated[Device, typer.Option(help="auto: CUDA where it is.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Processor threads.", show_default="all cores")] = None,
    method: Annotated[
        Method | None,
        typer.Option(help="Another head on the model's backbone, untrained; simpleshot reads train/ too, frn val/."),
    ] = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Also: how well photos of other classes are told from known ones.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Measure accuracy over random episodes, with its 95% confidence interval.

    Features are computed once per image, so ten thousand episodes take seconds.
    """
    leave_threads_to_torch()
    with user_errors():
        from frn.data.cache import load_images
        from frn.data.folders import scan, split_folder
        from frn.episodes import EpisodeShape
        from frn.errors import FrnError
        from frn.evaluation.features import FeatureExtractor, OnnxExtractor, TorchExtractor
        from frn.evaluation.method import with_method
        from frn.evaluation.report import EvaluationPlan, evaluate_images
        from frn.inference.extractor import Extractor
        from frn.model import load_model
        from frn.numerics import choose_device, choose_precision, set_threads
        from frn.zoo import is_exported

        folders = scan(split_folder(data, split))
        shapes = [EpisodeShape(way=way, shot=k, queries=queries) for k in shot or (1, 5)]
        set_threads(threads)
        where = choose_device(device)
        extractor: FeatureExtractor
        if is_exported(Path(model)):
            if method:
                raise FrnError("--method: an exported model keeps its head. Give the torch model itself.")
            extractor = OnnxExtractor(Extractor.open(Path(model), device=device, threads=threads or 0))
        else:
            loaded = load_model(model).to(where)
            if method:
                loaded = with_method(loaded, method)
            if method == "simpleshot":
                _centre(loaded, data, choose_precision(precision, where), where)
            untrained = bool(method) or loaded.config.untrained_head
            extractor = TorchExtractor(loaded, choose_precision(precision, where), where, untrained_head=untrained)
        transform = extractor.transform
        with progress_bar(f"decoding {split}") as decoding:
            images = load_images(folders, transform, progress=decoding)
        report_left_out([entry.reason for entry in images.broken])
        validation = None
        if extractor.untrained_head and extractor.method == "frn":
            with progress_bar("decoding val") as decoding:  # lambda, rho and gamma come from there
                validation = load_images(scan(split_folder(data, "val")), transform, progress=decoding)
        with progress_bar("features") as extracting, progress_bar("episodes") as scoring:
            results = evaluate_images(
                extractor,
                images,
                EvaluationPlan(shapes=shapes, episodes=episodes, seed=seed, unknown=unknown),
                validation=validation,
                where=str(folders.root),
                extracting=extracting,
                scoring=scoring,
            )
    if as_json:
        head = {"method": method} if method else {}
        print_json({"model": model, **head, "data": str(data), "split": split, "seed": seed, "results": results})
        return
    console = stdout()
    for result in results:
        console.print(describe(result))
        if unknown:
            console.print(f"  {describe_unknown(result['unknown'])}")


def _centre(model: "Model", data: Path, precision: "Precision", device: "torch.device") -> None:
    """Set SimpleShot's centre: the mean feature of the training images."""
    from frn.data.cache import load_images
    from frn.data.folders import scan, split_folder
    from frn.evaluation.features import mean_feature

    folders = scan(split_folder(data, "train"))
    with progress_bar("decoding train") as decoding:
        images = load_images(folders, model.config.transform, progress=decoding)
    with progress_bar("centre") as extracting:
        centre = mean_feature(model, images, precision=precision, device=device, progress=extracting)
    model.head.get_buffer("centre").copy_(centre)


def describe(result: "Result") -> str:
    """One result as a line of rich markup."""
    return (
        f"{result['way']}-way {result['shot']}-shot  [bold]{result['accuracy']:.2f} ± {result['ci95']:.2f} %[/bold]  "
        f"({result['episodes']} episodes, {result['queries']} queries, {result['seconds']:.1f} s)"
    )


def describe_unknown(found: "Unknown") -> str:
    """How strangers are told, as a line of rich markup."""
    return (
        f"known from unknown: AUROC [bold]{found['auroc']:.2f} ± {found['auroc_ci95']:.2f} %[/bold] by the explained "
        f"share, {found['auroc_softmax']:.2f} ± {found['auroc_softmax_ci95']:.2f} % by the probability; the calibrated "
        f"threshold calls {found['missed']:.1f} % of known and {found['caught']:.1f} % of unknown queries unknown"
    )
