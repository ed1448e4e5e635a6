"""Evaluate a model given by its name on a data set, for `frn eval`."""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frn._version import __version__
from frn.data.folders import ClassFolders, scan, split_folder
from frn.data.pixel_cache import Progress, StoredImages, load_images
from frn.episodes import EpisodeShape, check_classes
from frn.errors import FrnError
from frn.evaluation.accuracy import Result, as_result, summarise
from frn.evaluation.episodes import enrolled_accuracies, episode_accuracies
from frn.evaluation.features import FeatureExtractor, OnnxExtractor, TorchExtractor
from frn.features.extractor import Extractor, Tta, require_fixed
from frn.features.onnx_runtime import Device
from frn.heads import build_untrained_head, networks_for
from frn.heads.frn import FRNHead
from frn.heads.head import Head
from frn.heads.vectors.classical import CLASSICAL, ClassicalHead
from frn.models.model import Model, load_model
from frn.models.zoo import is_exported
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import UNTRAINED, Prior, tune_on_episodes
from frn.system.distributed import ALONE, ProcessGroup
from frn.system.precision import Precision, choose_device, choose_precision, keep_freed_memory, set_threads

ProgressBars = Callable[[str], AbstractContextManager[Progress]]
"""Opens a progress bar with a title; yields a callback for the finished number and the total."""


@contextmanager
def no_bars(title: str) -> Iterator[Progress]:
    """Show no progress."""
    yield lambda done, total: None


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationOptions:
    """Parameters of an evaluation."""

    model: str  # model file, run folder, shipped name or `features.onnx`
    data: Path  # data set with a folder per split, each with one folder per class
    split: str = "test"
    way: int = 5
    shot: Sequence[int] | None = None  # one result per shot; 1 and 5 by default
    queries: int = 16
    episodes: int = 10_000
    seed: int = 0
    precision: str = "fp32"
    device: Device = "auto"
    threads: int | None = None
    tta: Tta = "none"
    method: str | None = None
    """A different, untrained head on the model's backbone: SimpleShot is centred on train/, FRN is tuned on val/.

    One of `CLASSICAL` is fitted to each episode.
    """
    tune: bool = False
    """Also enroll each episode's classes as `frn classify` does: alpha and gamma chosen by leave-one-out."""
    transductive: bool = False  # also let the queries of each episode refine its enrolled classes; implies `tune`

    per_episode: bool = False  # also count the correct answers in each episode

    @property
    def shapes(self) -> list[EpisodeShape]:
        """Return the episode shapes, one result each."""
        return [EpisodeShape(way=self.way, shot=k, queries=self.queries) for k in self.shot or (1, 5)]


def evaluate_model(
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
    folders = scan(split_folder(options.data, options.split))  # before loading torch, to report a wrong folder early
    set_threads(options.threads)
    device = choose_device(options.device)
    precision = choose_precision(options.precision, device)
    extractor = _load(options, device, precision)

    def decode(split: ClassFolders, title: str) -> StoredImages:
        with ranks.main_process_first(), bars(f"decoding {title}") as progress:
            return load_images(split, extractor.transform, progress=progress)

    if options.method == "simpleshot":  # its centre is the mean feature of the training images
        assert isinstance(extractor, TorchExtractor)  # an exported model has a fixed method
        training = decode(scan(split_folder(options.data, "train")), "train")
        with bars("centre") as extracting:
            extractor.model.head.get_buffer("centre").copy_(extractor.mean_feature(training, extracting))
    images = decode(folders, options.split)
    ranks.assert_same(
        [__version__, images.checksum, images.names, images.sizes, options.shapes, options.episodes, options.seed]
    )
    warn([entry.reason for entry in images.broken])
    # An untrained FRN head gets its parameters from the validation split.
    tunes = extractor.untrained_head and extractor.method == "frn" and options.method not in CLASSICAL
    validation = decode(scan(split_folder(options.data, "val")), "val") if tunes else None
    return evaluate_images(
        extractor, images, options, validation=validation, where=str(folders.root), bars=bars, ranks=ranks
    )


def evaluate_images(
    extractor: FeatureExtractor,
    images: StoredImages,
    options: EvaluationOptions,
    *,
    validation: StoredImages | None = None,
    where: str = "the split",
    bars: ProgressBars = no_bars,
    ranks: ProcessGroup = ALONE,
) -> list[Result]:
    """Evaluate a model on images prepared by its own transform. The model is unchanged.

    An untrained FRN head is tuned for each shape on `validation`, images of other classes. Error messages call the
    images `where`. Raises FrnError if a class is too small for one of the shapes, or the model's numbers are not
    finite.
    """
    keep_freed_memory()
    fit = CLASSICAL.get(options.method or "")
    head: Head = ClassicalHead(fit) if fit else extractor.new_head()
    for shape in options.shapes:
        if validation is not None:
            check_classes(validation.names, validation.sizes, shape, where="the validation split", every_class=True)
        check_classes(images.names, images.sizes, shape, where=where, every_class=True)
    tune = options.tune or options.transductive
    if tune and not isinstance(head, FRNHead):
        raise FrnError("--tune and --transductive enroll classes: they need a model trained with --method frn")

    def extract(whole: StoredImages) -> Tensor:
        maps = ranks.gather(extractor.extract(whole.portion(ranks.share(len(whole))), extracting), len(whole))
        if not all(numbers.sum().isfinite() for numbers in (maps, *head.state_dict().values())):  # argmax of NaN is 0
            raise FrnError("the model is damaged: its weights or feature maps are not finite")
        return maps

    def whole(shares: NDArray[np.float64]) -> NDArray[np.float64]:
        local_shares = torch.from_numpy(shares).to(feature_maps.device)
        gathered: NDArray[np.float64] = ranks.gather(local_shares, options.episodes).cpu().numpy()
        return gathered

    with bars("features") as extracting:
        feature_maps = extract(images)
        examples = None if validation is None else extract(validation).cpu().numpy()
    results: list[Result] = []
    with bars("episodes") as scoring:
        which: dict[str, Any] = {"episodes": ranks.share(options.episodes), "seed": options.seed, "progress": scoring}
        for shape in options.shapes:
            chosen = None
            if validation is not None and examples is not None and isinstance(head, FRNHead):
                chosen = tune_on_episodes(examples, validation.sizes, shape, seed=options.seed)
                head.set_parameters(chosen)
            began = time.perf_counter()
            shares = whole(episode_accuracies(head, feature_maps, images.sizes, shape, **which))
            result = as_result(summarise(shares), shape, time.perf_counter() - began)
            if options.per_episode:
                result["correct"] = np.rint(shares * (shape.way * shape.queries)).astype(int).tolist()
            if chosen:
                result["head"] = asdict(chosen)
            if tune:
                prior = UNTRAINED if extractor.untrained_head else Prior.trained(HeadParameters.of(head))
                maps, transductive = feature_maps.cpu().numpy(), options.transductive
                shares = enrolled_accuracies(prior, maps, images.sizes, shape, transductive=transductive, **which)
                summaries = [
                    {"accuracy": each.mean, "ci95": each.ci95}
                    for each in (summarise(whole(column)) for column in shares.T)
                ]
                result["tuned"] = summaries[0]
                if transductive:
                    names = ("balanced", "dirichlet_inductive", "dirichlet")
                    result["transductive"] = dict(zip(names, summaries[1:], strict=True))
            results.append(result)
    return results


def _load(options: EvaluationOptions, device: torch.device, precision: Precision) -> FeatureExtractor:
    """Load the model, with the head of another method if requested."""
    require_fixed(options.tta, "all maps of an episode must have one size")
    method = None if options.method in CLASSICAL else options.method
    if is_exported(Path(options.model)):
        fixed = {"method": method, "precision": options.precision != "fp32"}
        if changed_options := [name for name, changed in fixed.items() if changed]:
            raise FrnError(
                f"--{changed_options[0]}: an exported model has a fixed head and precision. Remove the option, "
                "or pass the torch model."
            )
        exported = Extractor.open(Path(options.model), device=options.device, threads=options.threads or 0)
        return OnnxExtractor(exported, tta=options.tta)
    model = load_model(options.model)
    if method:
        model = with_method(model, method)
    if options.tta == "views" and model.config.method != "frn":
        raise FrnError(f"--tta views joins feature maps, but this is a {model.config.method} model. Use --tta hflip.")
    untrained = method is not None or model.config.untrained_head
    return TorchExtractor(model, precision, device, untrained_head=untrained, tta=options.tta)


def with_method(model: Model, method: str) -> Model:
    """Return the backbone of `model` with a new head at its initial values, in evaluation mode.

    The caller must still set SimpleShot's centre, the mean feature of the training images. Raises FrnError if the new
    head has its own layers, which need training, or uses the maps of a different number of networks.
    """
    if networks_for(method) != networks_for(model.config.method):
        raise FrnError(f"method {method!r} uses the maps of a different number of networks than this model")
    build_untrained_head(method, model.d)
    other = Model(replace(model.config, method=method))
    other.adapter = copy.deepcopy(model.adapter)
    other.backbone.load_state_dict(model.backbone.state_dict())
    other.record = model.record
    return other.to(next(model.parameters()).device).eval()
