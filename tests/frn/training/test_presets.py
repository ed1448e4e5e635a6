"""Training runs by name."""

import pytest

from frn.errors import FrnError
from frn.training.presets import PRESETS, Schedule, find_preset


def test_every_preset_makes_sense() -> None:
    for name, build in PRESETS.items():
        preset = build()
        assert find_preset(name) == preset
        assert preset.augmentation.size == preset.transform.size
        assert preset.schedule.learning_rate_at(preset.schedule.epochs - 1) < preset.schedule.learning_rate


def test_a_mistyped_name_is_answered_with_near_ones() -> None:
    with pytest.raises(FrnError, match=r"unknown preset 'cifar-conv4'. Did you mean cifar-fs-conv4"):
        find_preset("cifar-conv4")
    with pytest.raises(FrnError, match="There are: demo"):
        find_preset("xyz")


def test_the_rate_falls_at_each_milestone_and_milestones_move_with_the_epochs() -> None:
    schedule = Schedule(epochs=100, milestones=(60, 80), learning_rate=0.1)
    assert [round(schedule.learning_rate_at(epoch), 5) for epoch in (0, 59, 60, 79, 80, 99)] == [
        0.1, 0.1, 0.01, 0.01, 0.001, 0.001,
    ]  # fmt: skip
    assert schedule.scaled_to(10) == Schedule(epochs=10, milestones=(6, 8), learning_rate=0.1)
    assert schedule.scaled_to(1).milestones == ()
    with pytest.raises(FrnError, match="rising milestones"):
        Schedule(epochs=10, milestones=(8, 6))
