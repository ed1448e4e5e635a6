"""From options to a run: read the images, choose device and precision, train, and test the demo."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from frn.data.folders import ClassFolders, find_splits, scan, shared_classes, split_folder, unused_folders
from frn.data.pixel_cache import ConcatImages, StoredImages, load_images
from frn.data.synthetic import draw_classes
from frn.evaluation.accuracy import Result
from frn.evaluation.evaluate_model import EvaluationOptions, ProgressBars, evaluate_images, no_bars
from frn.evaluation.features import TorchExtractor
from frn.images.transforms import EvaluationTransform
from frn.models.model import Model, load_model
from frn.system.distributed import ALONE, ProcessGroup, began_before_restart, note_beginning
from frn.system.hardware import own_cores, own_rank, processor
from frn.system.precision import choose_device, choose_precision, set_threads
from frn.training.loop import StepReport, ValidationReport, train
from frn.training.presets import Preset
from frn.training.runs.run import RunFolder, RunResult, RunSettings
from frn.training.runs.run_options import RunOptions
from frn.training.setup import new_model

TEST_EPISODES = 2000
DEMO_CLASSES = {"train": 60, "val": 15, "test": 20}
DEMO_IMAGES = 24


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run whose images are loaded; `train` starts or resumes it."""

    options: RunOptions
    preset: Preset
    settings: RunSettings
    images: StoredImages | ConcatImages
    val_images: StoredImages
    init: Model | None = None  # model that the run starts from

    @property
    def best(self) -> Path:
        """Return the path of the trained model."""
        return self.options.folder / "best.safetensors"

    @property
    def broken(self) -> list[str]:
        """Return the reasons why images could not be used unchanged."""
        both = self.images.broken + self.val_images.broken  # one folder may contain both
        return list(dict.fromkeys(entry.reason for entry in both))

    @property
    def doubts(self) -> list[str]:
        """Return the folders of the data sets that are not used, and the training classes that are validated."""
        lines: list[str] = []
        if self.options.data:
            trained = [name for part in self.images.parts for name in part.names]
            lines = shared_classes({"train": trained, self.preset.validation.split: self.val_images.names})
        for data in self.options.data or []:
            splits = find_splits(data)
            lines += unused_folders(data, splits.values()) if "train" in splits else []
        return lines

    def __str__(self) -> str:
        preset = self.preset
        batch = preset.pretraining.batch
        steps = f"batches of {batch}"
        if preset.trains_on_episodes:
            batch = preset.episode.way * preset.episode.per_class
            steps = f"{preset.episode} with {preset.episode.queries} queries"
        world, together = self.settings.ranks.world, ""
        if world > 1:
            together = f" in each of {world} ranks; a step has {batch * world} images, {batch} per rank"
        return (
            f"{self.options.preset}: {preset.method} on {preset.backbone}, {steps}, {len(self.images)} images of "
            f"{len(self.images.sizes)} classes, {self.settings.precision} on {self.settings.device}, "
            f"{self.options.threads or own_cores()} threads{together}"
        )

    def train(
        self,
        report: Callable[[StepReport | ValidationReport], None] = lambda event: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> RunResult:
        """Train to the end or until `stop` returns True; see `frn.training.loop.train`."""
        return train(
            self.preset,
            self.images,
            self.val_images,
            self.options.folder,
            self.settings,
            init=self.init,
            report=report,
            stop=stop,
        )

    def test(self) -> list[Result]:
        """Return the accuracy on unseen classes if images are rendered; use `frn eval` for data sets on disk."""
        if self.preset.data.prepare is not None:
            return []
        extractor = TorchExtractor(load_model(self.best), self.settings.precision, self.settings.device)
        options = EvaluationOptions(model=str(self.best), data=self.best.parent, episodes=TEST_EPISODES)
        return evaluate_images(extractor, draw_demo("test", self.settings.seed), options)


def prepare_run(
    options: RunOptions, *, command: str = "", bars: ProgressBars = no_bars, ranks: ProcessGroup = ALONE
) -> PreparedRun:
    """Check the options of a run and load its images; `command` is recorded in `config.toml`.

    Raises FrnError if an option cannot work, the folder is taken, or images are missing.
    """
    options = options.configured()
    options.check()
    preset = options.overridden()
    settings = replace(_settings(options, command), ranks=ranks)
    init = None if options.init is None else load_model(options.init)
    new_model(preset, settings.seed, init)  # rejects options that do not fit before images are decoded
    with ranks.main_process_first():
        images, val_images = load_splits(preset, options.data or [], settings.seed, bars)
    return PreparedRun(options, preset, settings, images, val_images, init)


def _settings(options: RunOptions, command: str) -> RunSettings:
    """Return the settings of a run. Raises FrnError if the folder is taken or the device is not available."""
    resume = options.resume or (RunFolder(options.folder).last.exists() and began_before_restart())
    if own_rank() == 0:
        if not resume:
            RunFolder(options.folder).require_free()  # before images are loaded
        note_beginning()
    set_threads(options.threads)
    device = choose_device(options.device)
    facts = {
        "preset": options.preset,
        "data": " and ".join(path.resolve().name for path in options.data or []) or "rendered moths",
        "split": "train",
        "machine": f"{processor()}, threads: {options.threads or own_cores()}",
    }
    precision = choose_precision(options.wanted_precision, device)
    return RunSettings(
        seed=options.seed or 0, precision=precision, device=device, resume=resume, command=command, facts=facts
    )


def load_splits(
    preset: Preset, data: list[Path], seed: int, bars: ProgressBars
) -> tuple[StoredImages | ConcatImages, StoredImages]:
    """Return the training images of all data sets, and the validation images of the first.

    Raises FrnError if a split is missing or has no usable images.
    """
    if preset.data.prepare is None:
        return draw_demo("train", seed), draw_demo("val", seed)
    split = preset.validation.split
    train_folders = [scan(split_folder(path, "train")).without(preset.data.exclude_classes) for path in data]
    val_folders = scan(split_folder(data[0], split))
    parts = [_decoded("train", folders, preset.data.max_side, bars) for folders in train_folders]
    images = parts[0] if len(parts) == 1 else ConcatImages(tuple(parts))
    return images, _decoded(split, val_folders, preset.transform, bars)


def _decoded(split: str, folders: ClassFolders, size: int | EvaluationTransform, bars: ProgressBars) -> StoredImages:
    with bars(f"decoding {split}") as progress:
        return load_images(folders, size, progress=progress)


def draw_demo(split: str, seed: int) -> StoredImages:
    """Render moths; every split and seed has different species."""
    offset = 3 * seed + list(DEMO_CLASSES).index(split)
    return draw_classes(DEMO_CLASSES[split], DEMO_IMAGES, size=32, seed=offset)
