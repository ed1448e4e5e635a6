"""Every head whose authors have published PyTorch code, compared with numbers from it (`tests/golden/heads.npz`)."""

from pathlib import Path

import numpy as np
import pytest
import torch
from bench.official import OFFICIAL, Shape
from faithful import SHAPES, by_rule, distance, episode, results

from frn.heads import build_head, networks_for

GOLDEN = Path(__file__).parents[2] / "golden" / "heads.npz"
ALLOWED = {"bifrn": 2e-7, "deepemd": 2e-7}
"""Where the official code is less exact: positions in float32, and 1e-5 that is added to weights twice."""
RECORDED = [(name, shape) for name in OFFICIAL for shape in SHAPES if name != "deepemd" or shape[1] == 1]


@pytest.mark.parametrize(("name", "shape"), RECORDED, ids=str)
def test_log_probabilities_and_gradients_equal_those_of_the_official_code(name: str, shape: Shape) -> None:
    networks = networks_for(name)
    head = build_head(name, shape[3] * networks).double().eval()
    by_rule(head.state_dict())
    values, of_query, of_support = results(head, *episode(shape, networks))
    ours = {"log_probability": values, "query": of_query[..., 0], "support": of_support[..., 0]}
    prefix = f"{name}/{'-'.join(map(str, shape))}/"
    with np.load(GOLDEN) as file:
        theirs = {key.removeprefix(prefix): torch.from_numpy(file[key]) for key in file.files if key.startswith(prefix)}
    assert theirs.keys() == ({"log_probability"} if name == "deepemd" else ours.keys())
    for key, recorded in theirs.items():
        assert distance(ours[key], recorded) < ALLOWED.get(name, 1e-11), key
