"""Blocks: each block of a network learns a block of another network."""

import re

import numpy as np
import pytest
from lessons.blocks import learn_blocks

from tests.teaching.colours import PHOTOS, Colours, network


@pytest.mark.nightly
def test_every_block_reproduces_its_map_better_with_more_steps() -> None:
    lines: list[str] = []
    learn_blocks(network()[1], Colours(), PHOTOS, 50, 0, lines.append)
    first, last = ([float(error) for error in re.findall(r"\d+\.\d\d", line)] for line in lines)
    assert len(first) == 14
    assert all(after < 0.6 * before for before, after in zip(first, last, strict=True)), lines


def test_blocks_that_see_the_networks_own_maps_bring_its_last_map_closer_to_the_teachers() -> None:
    backbone, teacher = network()[1], Colours()
    learn_blocks(backbone, teacher, PHOTOS, 50, 0)
    views = PHOTOS.draw(16, np.random.default_rng(1))

    def error() -> float:
        target = teacher(views)[-1].permute(0, 3, 1, 2)
        return (backbone.blocks(PHOTOS.seen(views)) - target).square().mean().item()

    before = error()
    learn_blocks(backbone, teacher, PHOTOS, 50, 0, own=True)
    assert error() < 0.9 * before


def test_every_block_is_trained_and_left_in_evaluation_mode() -> None:
    model, backbone = network()
    before = {name: value.clone() for name, value in model.backbone.state_dict().items()}
    learn_blocks(backbone, Colours(), PHOTOS, 1, 0)
    after = model.backbone.state_dict()
    assert not [name for name, value in before.items() if name.endswith("weight") and value.equal(after[name])]
    assert not any(block.training for block in backbone.blocks.children())
