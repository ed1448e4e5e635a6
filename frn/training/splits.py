"""The images that a preset trains and validates on: of data sets on disk, or the demo's rendered moths."""

from pathlib import Path

from frn.data.concat import ConcatImages
from frn.data.folders import scan, split_folder
from frn.data.pixel_cache import StoredImages, load_images
from frn.data.synthetic import draw_classes
from frn.evaluation.evaluate_model import ProgressBars
from frn.training.presets import Preset

DEMO_CLASSES = {"train": 60, "val": 15, "test": 20}
DEMO_IMAGES = 24


def load_splits(
    preset: Preset, data: list[Path], seed: int, bars: ProgressBars
) -> tuple[StoredImages | ConcatImages, StoredImages]:
    """Training images of all data sets, and validation images of the first.

    FrnError if a split is missing or has no usable images.
    """
    if preset.data.prepare is None:
        return draw_demo("train", seed), draw_demo("val", seed)
    split = preset.validation.split
    train_folders = [scan(split_folder(path, "train")).without(preset.data.exclude_classes) for path in data]
    val_folders = scan(split_folder(data[0], split))
    parts = []
    for folders in train_folders:
        with bars("decoding train") as progress:
            parts.append(load_images(folders, preset.data.max_side, progress=progress))
    with bars(f"decoding {split}") as progress:
        val_images = load_images(val_folders, preset.transform, progress=progress)
    return parts[0] if len(parts) == 1 else ConcatImages(tuple(parts)), val_images


def draw_demo(split: str, seed: int) -> StoredImages:
    """Drawn moths; every split and seed has species of its own."""
    offset = 3 * seed + list(DEMO_CLASSES).index(split)
    return draw_classes(DEMO_CLASSES[split], DEMO_IMAGES, size=32, seed=offset)
