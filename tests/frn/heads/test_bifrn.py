"""Bi-FRN, compared with its formulas in float64 and with numbers from its authors' code."""

import json
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from frn.heads.bifrn import BiFRNHead, positions

GOLDEN = Path(__file__).parents[2] / "golden"
R, D = 4, 6


def test_positions_do_not_depend_on_the_size_of_the_map() -> None:
    maps = torch.zeros(1, dtype=torch.float64)
    torch.testing.assert_close(positions(25, 64, like=maps)[:9], positions(9, 64, like=maps))


def test_attention_dropout_applies_only_in_training() -> None:
    maps = torch.randn(2, 1, R, D, generator=torch.Generator().manual_seed(0))
    head = BiFRNHead(D)
    with torch.no_grad():
        assert not torch.equal(head(maps, maps[:, 0]), head(maps, maps[:, 0]))
        head.eval()
        assert torch.equal(head(maps, maps[:, 0]), head(maps, maps[:, 0]))


def weights_by_rule(shapes: dict[str, list[int]]) -> dict[str, Tensor]:
    """The weights used for the recording: random, but the same everywhere."""
    state = {}
    for key, shape in shapes.items():
        z = np.random.default_rng(zlib.crc32(key.encode())).standard_normal(shape)
        if key.endswith("num_batches_tracked"):
            state[key] = torch.tensor(7)
            continue
        if key.endswith("running_var"):
            z = 1 + 0.1 * np.abs(z)
        elif len(shape) >= 2:
            z = z / np.sqrt(np.prod(shape[1:]))
        elif key == "scale":
            z = np.array([1.7])
        else:
            z = 1 + 0.1 * z if key in ("w1", "w2") or key.endswith("weight") else 0.1 * z
        state[key] = torch.from_numpy(np.asarray(z, dtype=np.float32))
    return state


OURS = {
    "scale": "gamma",
    "w1": "weight_back",
    "w2": "weight_forth",
    "fmrm.to_qkv.0.weight": "projections.weight",
    "blocks.0.pre_norm": "before_attention",
    "blocks.0.self_attn.qkv": "attention",
    "blocks.0.self_attn.proj": "attended",
    "blocks.0.norm1": "after_attention",
    "blocks.0.linear1": "inner",
    "blocks.0.linear2": "outer",
    "norm": "last",
}
"""Our names of the layers in the authors' code."""


def test_weights_of_the_authors_give_the_same_logits() -> None:
    state = {}
    for key, value in weights_by_rule(json.loads((GOLDEN / "bifrn.keys.json").read_text())).items():
        layer, _, kind = key.removeprefix("fsrm.transformer.").rpartition(".")
        if key in OURS:
            state[OURS[key]] = value.reshape(()) if value.numel() == 1 else value
        elif key.startswith("fsrm.") and layer:
            state[f"itself.{OURS[layer]}.{kind}"] = value
    head = BiFRNHead(64)
    head.load_state_dict(state)
    episode = np.load(GOLDEN / "episode.npz")
    support, query = (torch.from_numpy(episode[name]).double() for name in ("support", "query"))
    with torch.no_grad():
        logits = head.double().eval()(support, query)
    expected = torch.from_numpy(np.load(GOLDEN / "bifrn.npz")["logits"])
    torch.testing.assert_close(logits, expected, rtol=1e-7, atol=0)  # the authors' sines are float32
