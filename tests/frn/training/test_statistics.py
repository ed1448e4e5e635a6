"""Batch normalisation in fine-tuning: training keeps the running statistics, which photos can re-estimate."""

from dataclasses import replace

import numpy as np
import torch

from frn.data.batch_augmentation import augment
from frn.data.synthetic import draw_classes
from frn.models.model import load_model
from frn.training.finetuning.statistics import (
    MIN_CROP,
    begin_training,
    measure_statistics,
    norms,
    statistics_of,
)
from frn.training.presets import find_preset
from frn.training.runs.run import RunSettings


def test_preset_can_keep_batch_statistics() -> None:
    for fixed in (True, False):
        model = load_model("conv4")
        before = [value.clone() for value in statistics_of(model)]
        begin_training(model, replace(find_preset("demo"), freeze_batchnorm=fixed))
        model.feature_maps(torch.rand(4, 3, 32, 32))
        same = [torch.equal(a, b) for a, b in zip(before, statistics_of(model), strict=True)]
        assert all(same) if fixed else not any(same)
        assert model.training


def test_photo_statistics_are_means_over_nearly_whole_photos() -> None:
    model, preset = load_model("conv4"), find_preset("demo")
    images = draw_classes(4, 16, size=40, seed=0)  # the photos fit into one batch of 64
    before = {name: value.clone() for name, value in model.state_dict().items()}
    measured = measure_statistics(model, images, preset, RunSettings(seed=3))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items()), "the model is as it was"

    order, generator = np.random.default_rng([3, 2]).permutation(64), np.random.default_rng([3, 5])
    whole = preset.augmentation.whole(preset.transform.size, MIN_CROP)
    assert (whole.scale, whole.jitter) == ((0.6, 1.0), 0)
    batch = augment(*images.gather(order), whole, generator)
    seen: list[torch.Tensor] = []
    norms(model)[0].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        model.eval().feature_maps(batch)
    (values,) = seen
    torch.testing.assert_close(measured[0], values.mean((0, 2, 3)), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(measured[1], values.var((0, 2, 3)), atol=1e-5, rtol=1e-3)
