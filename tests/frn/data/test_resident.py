"""Pixels stored on the training device; here this is the processor or `meta`."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from frn.data.pixel_cache import ConcatImages
from frn.data.resident import ResidentImages, where_they_fit
from frn.data.synthetic import draw_classes
from frn.episodes import EpisodeShape
from frn.training import loop
from frn.training.loop import train
from frn.training.presets import Schedule, find_preset
from frn.training.runs.run import RunSettings

CPU = torch.device("cpu")
SEVERAL_SIZES = ConcatImages(tuple(draw_classes(2, 3, size=size, seed=size) for size in (20, 33, 27)))


@pytest.mark.parametrize("piece", [1 << 26, 1000])
def test_images_on_the_device_equal_images_on_the_host(piece: int) -> None:
    with patch("frn.data.resident.PIECE", piece):
        resident = ResidentImages(SEVERAL_SIZES, CPU)
    chosen = np.array([17, 0, 6, 5, 17, 12])
    canvas, extents = resident.gather(chosen)
    expected, their_extents = SEVERAL_SIZES.gather(chosen)
    assert canvas.dtype == torch.uint8
    np.testing.assert_array_equal(canvas.numpy(), expected)
    np.testing.assert_array_equal(extents, their_extents)


@pytest.mark.parametrize(("free", "kind"), [(1 << 30, ResidentImages), (1 << 10, ConcatImages)])
def test_pixels_go_to_the_device_if_they_fit(free: int, kind: type) -> None:
    with (
        patch("torch.cuda.mem_get_info", lambda _: (free, 1 << 40)),
        patch("frn.data.resident.ResidentImages", lambda images, device: ResidentImages(images, CPU)),
    ):
        assert isinstance(where_they_fit(SEVERAL_SIZES, torch.device("cuda")), kind)
    assert where_they_fit(SEVERAL_SIZES, CPU) is SEVERAL_SIZES


def test_run_gives_the_same_result_with_resident_pixels(tmp_path: Path) -> None:
    shape, images = EpisodeShape(way=3, shot=1, queries=2), draw_classes(4, 9, size=32, seed=1)
    preset = replace(find_preset("demo"), episode=shape, schedule=Schedule(epochs=1, milestones=()))
    losses = []
    for name, held in (("host", images), ("device", ResidentImages(images, CPU))):
        with patch.object(loop, "where_they_fit", lambda *_, held=held: held):
            train(preset, images, images, tmp_path / name, RunSettings())
        losses.append((tmp_path / name / "metrics.jsonl").read_text())
    assert losses[0] == losses[1]
    assert losses[0]
