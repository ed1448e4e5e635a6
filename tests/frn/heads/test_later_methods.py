"""Methods published after FRN: logits and gradients, compared in float64 with their public code."""

import math
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.heads import build_head
from frn.heads.lccrn import LCCRNHead
from frn.models.header import ModelConfig
from frn.models.model import Model
from tests.frn.heads.oracle import Plain, assert_equals

GOLDEN = Path(__file__).parents[2] / "golden"
WAY, SHOT, R, QUERIES = 3, 2, 4, 5


def check(head: nn.Module, plain: Plain, *, d: int, shot: int = SHOT, r: int = R) -> None:
    """Compare a head whose parameters differ from the initial ones."""
    generator = torch.Generator().manual_seed(3)
    for parameter in head.double().parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    support = torch.randn(WAY, shot, r, d, generator=generator, dtype=torch.float64)
    assert_equals(head, plain, support, torch.randn(QUERIES, r, d, generator=generator, dtype=torch.float64))


def from_pool(rows: Tensor, pool: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """FRN's reconstruction with an inverse of d by d, as in the public code."""
    p, d = pool.shape
    lam = p / d * alpha.exp() + 1e-6
    gram = pool.T @ pool
    return beta.exp() * rows @ torch.linalg.inv(gram + lam * torch.eye(d, dtype=pool.dtype)) @ gram


def enriched_by_hand(head: LCCRNHead, maps: Tensor, d: int) -> Tensor:
    """Neighbourhoods as five-dimensional volumes with three-dimensional convolutions, as in the public code."""
    n, r, _ = maps.shape
    side = math.isqrt(r)
    grid = F.normalize(F.normalize(maps, dim=2).relu(), dim=2).mT.reshape(n, d, side, side)
    padded = F.pad(grid, (2, 2, 2, 2))
    volume = torch.stack([padded[:, :, i : i + 5, j : j + 5] for i in range(side) for j in range(side)], 2)

    def layer(x: Tensor, convolution: nn.Module, norm: nn.Module) -> Tensor:
        weight = convolution.get_parameter("weight")[:, :, None]  # 1 x 3 x 3
        x = F.conv3d(x, weight)
        mean, var = x.mean((0, 2, 3, 4), keepdim=True), x.var((0, 2, 3, 4), unbiased=False, keepdim=True)
        scale, shift = (norm.get_parameter(name)[:, None, None, None] for name in ("weight", "bias"))
        return (x - mean) / (var + 1e-5).sqrt() * scale + shift

    enrich = head.enrich
    if isinstance(enrich.before, nn.Sequential):
        volume = layer(volume, enrich.before[0], enrich.before[1]).relu()
    volume = layer(volume, enrich.inside[0], enrich.inside[1]).relu()
    volume = layer(volume, enrich.inside[3], enrich.inside[4]).relu()
    if isinstance(enrich.after, nn.Sequential):
        volume = layer(volume, enrich.after[0], enrich.after[1])
    return F.normalize(volume[:, :, :, 0, 0].mT, dim=2)


@pytest.mark.parametrize("d", [6, 80])  # 80 channels are narrowed to 64
def test_lccrn_reconstructs_two_query_maps_from_two_class_maps(d: int) -> None:
    torch.manual_seed(0)
    head = LCCRNHead(2 * d).train()

    def plain(support: Tensor, query: Tensor) -> Tensor:
        maps = torch.cat([support.flatten(0, 1), query])
        both = [F.normalize(maps[..., :d], dim=2), enriched_by_hand(head, maps[..., d:], d)]
        logits = torch.zeros(QUERIES, WAY, dtype=torch.float64)
        for i, (of_query, of_class) in enumerate([(0, 0), (1, 1), (0, 1), (1, 0)]):
            for label in range(WAY):
                pool = both[of_class][label * SHOT : (label + 1) * SHOT].flatten(0, 1)
                rows = both[of_query][WAY * SHOT :]
                rebuilt = from_pool(rows.flatten(0, 1), pool, head.alpha[i], head.beta[i]).reshape(rows.shape)
                error = (rebuilt - rows).square().sum(2).mean(1)
                logits = logits - head.weights[i] * error[:, None] * F.one_hot(torch.tensor(label), WAY)
        return head.gamma * logits

    check(head, plain, d=2 * d, r=9)


def test_lccrn_requires_square_maps() -> None:
    with pytest.raises(ValueError, match="8 locations"):
        LCCRNHead(12)(torch.randn(WAY, SHOT, 8, 12), torch.randn(QUERIES, 8, 12))


def test_lccrn_auxiliary_loss_uses_the_maps_of_the_first_network() -> None:
    support = torch.randn(WAY, SHOT, R, 12)
    torch.testing.assert_close(LCCRNHead(12).auxiliary_supports(support), F.normalize(support[..., :6], dim=3))


@torch.no_grad()
def test_head_with_two_networks_gets_two_backbones() -> None:
    torch.manual_seed(0)
    model = Model(ModelConfig(backbone="conv4", method="lccrn")).eval()
    images = torch.rand(2, 3, 84, 84)
    maps = model.feature_maps(images)
    assert maps.shape == (2, 25, 128)
    assert model.d == 128
    first, second = maps.chunk(2, 2)
    assert not torch.allclose(first, second)
    alone = Model(ModelConfig(backbone="conv4", method="mcl")).eval()
    prefix = "networks.1."
    weights = {k.removeprefix(prefix): v for k, v in model.backbone.state_dict().items() if k.startswith(prefix)}
    alone.backbone.load_state_dict(weights)
    torch.testing.assert_close(alone.feature_maps(images), second)
    torch.testing.assert_close(model.folded().feature_maps(images), maps, rtol=1e-3, atol=1e-5)


def as_recorded(name: str) -> nn.Module:
    """Build a head with the parameters of the recording."""
    head = build_head(name, 128 if name == "lccrn" else 64)
    values: dict[str, dict[str, float | list[float]]] = {
        "mcl": {},
        "srm": {"frn.alpha": 0.4, "frn.beta": -0.2, "own_alpha": -0.3, "own_beta": 0.1, "frn.gamma": 1.7},
        "deepbdc": {"log_scale": math.log(0.8)},
        "lccrn": {
            "alpha": [0.4, -0.2, 0.3, 0.1],
            "beta": [-0.2, 0.1, 0.2, -0.1],
            "weights": [0.4, 0.3, 0.2, 0.1],
            "gamma": 1.7,
        },
    }
    for key, value in values[name].items():
        head.get_parameter(key).data = torch.tensor(value, dtype=torch.float64)
    for key, tensor in head.double().eval().state_dict().items():
        if key.startswith("enrich.") and tensor.dim():  # convolutions 0 and 3, each before its normalisation
            layer, last = key.removeprefix("enrich.inside.").split(".")
            named = f"LCCRN.conv{1 + int(layer) // 3}.{int(layer) % 3}.{last}"
            z = torch.from_numpy(np.random.default_rng(zlib.crc32(named.encode())).standard_normal(tensor.shape))
            if last == "running_var":
                tensor.copy_(1 + 0.1 * z.abs())
            else:
                tensor.copy_(z / math.sqrt(tensor[0].numel()) if tensor.dim() > 1 else (last == "weight") + 0.1 * z)
    return head


@pytest.mark.parametrize("recorded", ["srm", "lccrn", "mcl", "deepbdc_1", "deepbdc_2"])
def test_logits_and_gradients_equal_the_authors_code(recorded: str) -> None:
    name, _, shot = recorded.partition("_")
    episode, arrays = np.load(GOLDEN / "episode.npz"), np.load(GOLDEN / "later.npz")
    support, query = (torch.from_numpy(episode[key]).double() for key in ("support", "query"))
    query.requires_grad_()
    maps = [support[:, : int(shot or SHOT)], query]
    if name == "lccrn":  # the second network's maps are the first's, with the channels in reverse
        maps = [torch.cat([m, m.flip(-1)], -1) for m in maps]
    logits = as_recorded(name)(*maps)
    (gradient,) = torch.autograd.grad((logits * torch.tensor([1.0, -2.0, 3.0])).sum(), query)
    torch.testing.assert_close(logits, torch.from_numpy(arrays[recorded]), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradient, torch.from_numpy(arrays[f"{recorded}_gradient"]), rtol=1e-9, atol=1e-9)
