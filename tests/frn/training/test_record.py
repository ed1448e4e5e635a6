"""What a stored run is compared by."""

import json
from dataclasses import replace

import pytest

from frn.training.presets import Preset, find_preset
from frn.training.presets.record import changes, deciding_fields, published_fields

SHORT = find_preset("cifar-fs-conv4-short")


@pytest.mark.parametrize(
    ("preset", "revision"),
    [
        (SHORT, 1),
        (replace(SHORT, method="proto", aux="off"), 1),
        (replace(SHORT, method="dsn"), 3),
        (replace(SHORT, method="dsn", backbone="resnet12"), 2),
        (replace(SHORT, method="covariance", aux="off"), 2),
        (replace(SHORT, aux_heads=("dsn",)), 3),
        (find_preset("cifar-fs-conv4-average"), 1),
        (find_preset("mini-imagenet-resnet12-average"), 2),
    ],
)
def test_a_run_of_a_method_that_has_changed_since_the_first_version_is_not_gone_on_with(
    preset: Preset, revision: int
) -> None:
    first = json.loads(json.dumps(published_fields(preset)))  # what version 0.1.0 stored
    expected = [] if revision == 1 else [f"method_revision was 1 and is {revision}"]
    assert changes(first, deciding_fields(preset)) == expected
    today = json.loads(json.dumps(deciding_fields(preset)))
    assert not changes(today, deciding_fields(preset))
