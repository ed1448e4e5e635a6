"""What a stored run is compared by."""

import json
from dataclasses import replace

import pytest

from frn.training.presets import Preset, find_preset
from frn.training.presets.record import changes, deciding_fields, published_fields

SHORT = find_preset("cifar-fs-conv4-short")


@pytest.mark.parametrize(
    ("preset", "same"),
    [
        (SHORT, True),
        (replace(SHORT, method="proto", aux="off"), True),
        (replace(SHORT, method="dsn"), False),
        (replace(SHORT, method="covariance", aux="off"), False),
        (replace(SHORT, aux_heads=("dsn",)), False),
        (find_preset("cifar-fs-conv4-average"), True),
        (find_preset("mini-imagenet-resnet12-average"), False),
    ],
)
def test_a_run_of_a_method_that_has_changed_since_the_first_version_is_not_gone_on_with(
    preset: Preset, same: bool
) -> None:
    first = json.loads(json.dumps(published_fields(preset)))  # what version 0.1.0 stored
    assert changes(first, deciding_fields(preset)) == ([] if same else ["method_revision was 1 and is 2"])
    today = json.loads(json.dumps(deciding_fields(preset)))
    assert not changes(today, deciding_fields(preset))
