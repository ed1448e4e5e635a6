"""Evaluate a model given by its name on a data set, for `frn eval`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from frn._version import __version__
from frn.data.folders import ClassFolders, scan, split_folder
from frn.data.pixel_cache import Progress, StoredImages, load_images
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.evaluation.accuracy import Result
from frn.evaluation.features import FeatureExtractor, OnnxExtractor, TorchExtractor
from frn.evaluation.split_report import EvaluationPlan, evaluate_images
from frn.heads.vectors.classical import CLASSICAL, ClassicalHead
from frn.images.transforms import EvaluationTransform
from frn.inference.extractor import Extractor, Tta
from frn.inference.onnx_runtime import Device
from frn.models.model import Model, load_model
from frn.models.zoo import is_exported
from frn.system.distributed import ALONE, ProcessGroup
from frn.system.precision import Precision, choose_device, choose_precision, set_threads

ProgressBars = Callable[[str], AbstractContextManager[Progress]]
"""Opens a progress bar with a title; yields a callback for the finished number and the total."""


@contextmanager
def no_bars(title: str) -> Iterator[Progress]:
    """Show no progress."""
    yield lambda done, total: None


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationOptions:
    """Parameters of an evaluation."""

    model: str
    """Model file, run folder, shipped name or `features.onnx`."""
    data: Path
    """Data set with a folder per split, each with one folder per class."""
    split: str = "test"
    way: int = 5
    shot: Sequence[int] | None = None
    """One result per shot; 1 and 5 by default."""
    queries: int = 16
    episodes: int = 10_000
    seed: int = 0
    precision: str = "fp32"
    device: Device = "auto"
    threads: int | None = None
    transform: EvaluationTransform | None = None
    """Image preparation for an authors' `.pth`, which does not contain it."""
    tta: Tta = "none"
    method: str | None = None
    """A different, untrained head on the model's backbone: SimpleShot is centred on train/, FRN is tuned on val/.

    One of `CLASSICAL` is fitted to each episode.
    """
    tune: bool = False
    transductive: bool = False


def evaluate(
    options: EvaluationOptions,
    *,
    bars: ProgressBars = no_bars,
    warn: Callable[[Sequence[str]], None] = lambda reasons: None,
    ranks: ProcessGroup = ALONE,
) -> list[Result]:
    """Measure a model's accuracy over random episodes; `warn` receives the reasons for skipped images.

    Ranks share images and episodes; each gets the results.

    Raises FrnError if the model or data set does not exist, or a class is too small for the episodes.
    """
    folders = scan(split_folder(options.data, options.split))  # before loading torch, to report a wrong folder at once
    shapes = [EpisodeShape(way=options.way, shot=k, queries=options.queries) for k in options.shot or (1, 5)]
    set_threads(options.threads)
    device = choose_device(options.device)
    precision = choose_precision(options.precision, device)
    extractor = _load(options, device, precision)

    def decode(split: ClassFolders, title: str) -> StoredImages:
        with ranks.main_process_first(), bars(f"decoding {title}") as progress:
            return load_images(split, extractor.transform, progress=progress)

    if options.method == "simpleshot":  # its centre is the mean feature of the training images
        assert isinstance(extractor, TorchExtractor)  # an exported model has a fixed method
        train = decode(scan(split_folder(options.data, "train")), "train")
        with bars("centre") as extracting:
            centre = extractor.mean_feature(train, extracting)
        extractor.model.head.get_buffer("centre").copy_(centre)
    fit = CLASSICAL.get(options.method or "")
    images = decode(folders, options.split)
    ranks.assert_same(
        [__version__, images.checksum, images.names, images.sizes, shapes, options.episodes, options.seed]
    )
    warn([entry.reason for entry in images.broken])
    # An untrained FRN head gets its parameters from the validation split.
    tunes = extractor.untrained_head and extractor.method == "frn" and not fit
    validation = decode(scan(split_folder(options.data, "val")), "val") if tunes else None
    with bars("features") as extracting, bars("episodes") as scoring:
        return evaluate_images(
            extractor,
            images,
            EvaluationPlan(
                shapes=shapes,
                episodes=options.episodes,
                seed=options.seed,
                head=ClassicalHead(fit) if fit else None,
                tune=options.tune,
                transductive=options.transductive,
                ranks=ranks,
            ),
            validation=validation,
            where=str(folders.root),
            extracting=extracting,
            scoring=scoring,
        )


def _load(options: EvaluationOptions, device: torch.device, precision: Precision) -> FeatureExtractor:
    """Load the model, with the head of another method if requested."""
    method = None if options.method in CLASSICAL else options.method
    if is_exported(Path(options.model)):
        fixed = {"method": method, "precision": options.precision != "fp32", "preset": options.transform}
        if given := [name for name, changed in fixed.items() if changed]:
            raise FrnError(
                f"--{given[0]}: an exported model has a fixed head, precision and preprocessing. Remove the option, or "
                "pass the torch model."
            )
        exported = Extractor.open(Path(options.model), device=options.device, threads=options.threads or 0)
        return OnnxExtractor(exported, mirror=options.tta == "hflip")
    model = load_model(options.model, transform=options.transform)
    if method:
        model = with_method(model, method)
    untrained = method is not None or model.config.untrained_head
    return TorchExtractor(model, precision, device, untrained_head=untrained, mirror=options.tta == "hflip")


def with_method(model: Model, method: str) -> Model:
    """Return the backbone of `model` with a new head at its initial values, in evaluation mode.

    The caller must still set SimpleShot's centre, the mean feature of the training images. Raises FrnError if the new
    head has its own layers, which need training.
    """
    other = Model(replace(model.config, method=method))
    layers = [name for name, parameter in other.head.named_parameters() if parameter.dim()]
    if layers:
        raise FrnError(
            f"--method {method} has layers that need training ({', '.join(layers)}): `frn train --method {method} "
            "--init MODEL` does that"
        )
    other.backbone.load_state_dict(model.backbone.state_dict())
    other.record = model.record
    return other.to(next(model.parameters()).device).eval()
