"""FRN, the methods built on it compared with their authors' codes (`tests/golden/heads.npz`), and heads of packages."""

import math
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from bench.official import OFFICIAL, Shape
from faithful import SHAPES, by_rule, distance, episode, results
from torch import Tensor

from frn import heads
from frn.errors import FrnError
from frn.heads import Head, build_head, networks_for
from frn.heads.bifrn import BiFRNHead, positions
from frn.heads.frn import FRNHead
from frn.heads.lccrn import LCCRNHead
from frn.heads.pretrain import DummyMapHead
from frn.heads.tdm import ChannelWeights, TDMProtoHead
from frn.heads.vectors.prototypes import ProtoHead
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model, import_reference, load_model, save_model
from frn.ridge import reconstruct
from frn.training.presets import find_preset
from frn.training.runs.run_options import RunOptions

WAY, SHOT, R, D, QUERIES = 3, 2, 4, 6, 5


def small_episode() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    support = torch.randn(WAY, SHOT, R, D, generator=generator, dtype=torch.float64)
    return support, torch.randn(QUERIES, R, D, generator=generator, dtype=torch.float64)


def lively(weights: ChannelWeights) -> ChannelWeights:
    """Set weights for which BatchNorm has an effect."""
    generator = torch.Generator().manual_seed(1)
    for name, tensor in weights.state_dict().items():
        if "norm" in name and tensor.dim():
            tensor.add_(0.3 * torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype))
    return weights.double().eval()


@pytest.mark.parametrize(
    ("head", "plain"),
    [
        (build_head("frn-tdm", D), FRNHead()),
        (build_head("proto-tdm", D), ProtoHead(pooled=False)),
        (TDMProtoHead(D, pooled=True), ProtoHead(pooled=True)),
    ],
)
def test_equal_weights_give_the_underlying_method(head: torch.nn.Module, plain: torch.nn.Module) -> None:
    support, query = small_episode()
    head.double().eval()
    for net in head.get_submodule("weights").children():
        net.get_parameter("narrow.weight").data.zero_()  # every weight is one
    with torch.no_grad():
        torch.testing.assert_close(head(support, query), plain(support, query))


def test_weights_get_noise_only_in_training_and_stay_between_0_and_2() -> None:
    weights, (support, query) = lively(ChannelWeights(D)), small_episode()
    with torch.no_grad():
        assert torch.equal(weights(support, query), weights(support, query))
        weights.train()
        assert not torch.equal(weights(support, query), weights(support, query))
        for net in (weights.within, weights.between, weights.query):
            net.narrow.weight.fill_(100.0)
        assert weights(support, query).max() <= 2
        assert weights(support, query).min() >= 0


def test_logits_are_the_scaled_mean_squared_errors_of_eq_9() -> None:
    head = FRNHead().double()
    with torch.no_grad():
        head.alpha.fill_(0.4)
        head.beta.fill_(-0.3)
        head.gamma.fill_(2.5)
    support, query = torch.randn(3, 2, 4, 16).double(), torch.randn(5, 4, 16).double()
    lam, rho = 8 / 16 * math.exp(0.4) + 1e-6, math.exp(-0.3)
    rebuilt = reconstruct(query.flatten(0, 1), support.flatten(1, 2), lam, rho).unflatten(1, (5, 4))
    expected = -2.5 * (rebuilt - query).square().sum(-1).mean(-1).mT
    torch.testing.assert_close(head(support, query), expected)


def test_copy_of_a_support_is_assigned_to_its_class() -> None:
    support = torch.randn(4, 1, 9, 64)
    assert FRNHead()(support, support[:, 0]).argmax(1).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("shot", [1, 3])
def test_deepbdc_starts_with_a_scale_that_suits_the_network(shot: int) -> None:
    """Its initial scale is for maps of a fresh network. On larger maps, the loss is far above that of a guess."""
    head, labels = build_head("deepbdc", 8), torch.arange(4).repeat_interleave(5)
    maps = 30 * (0.5 * torch.randn(4, 1, 9, 8) + torch.randn(4, shot + 5, 9, 8))
    support, query = maps[:, :shot], maps[:, shot:]
    with torch.no_grad():
        assert F.cross_entropy(head(support, query.flatten(0, 1)), labels) > 2 * math.log(4)
        head.start_on([maps], shot)
        assert F.cross_entropy(head(support, query.flatten(0, 1)), labels) < math.log(4)


@pytest.mark.parametrize(
    ("method", "learned", "said"),
    [
        ("frn", {}, ""),
        ("frn", {"gamma": 0.01, "beta": -1.9}, ""),
        ("frn", {"gamma": -0.3}, "gamma is -0.30: the class"),
        ("frn", {"beta": -13.4}, "rho is 2e-06: no class"),
        ("deepbdc", {"log_scale": -5.0}, ""),
        ("deepbdc", {"log_scale": -12.0}, "the scale of distances is 6e-06: all images"),
    ],
)
def test_a_head_reports_unrecoverable_divergence(method: str, learned: dict[str, float], said: str) -> None:
    head = build_head(method, 4)
    for name, value in learned.items():
        head.get_parameter(name).data.fill_(value)
    assert head.divergence_reason().startswith(said)
    assert bool(head.divergence_reason()) == bool(said)


def test_dummy_map_reconstructs_like_a_pool_of_one_image() -> None:
    """Sec. 3.6: FRN pre-training is FRN with learned supports and alpha = beta = 0."""
    torch.manual_seed(0)
    head, pretraining = FRNHead().double(), DummyMapHead(7, 4, 12).double()
    maps = torch.randn(5, 4, 12, dtype=torch.float64)
    torch.testing.assert_close(pretraining(maps, head), head(pretraining.dummy_maps[:, None], maps))


def test_log_probabilities_equal_the_recorded_ones(golden: Path) -> None:
    model = import_reference(golden / "pretrain-conv4.pth", transform=EvaluationTransform(size=84))
    state = torch.load(golden / "pretrain-conv4.pth", weights_only=True)
    arrays = np.load(golden / "pretrain-conv4.npz")
    pretraining = DummyMapHead(*state["cat_mat"].shape)
    pretraining.load_state_dict({"dummy_maps": state["cat_mat"]})
    assert isinstance(model.head, FRNHead)
    with torch.no_grad():
        maps = model.backbone(torch.from_numpy(arrays["images"])).flatten(2).mT  # recorded images are normalised
        ours = pretraining(maps, model.head).log_softmax(1).numpy()
    expected = arrays["log_probability"]
    assert np.abs(ours - expected).max() <= 1e-5 * np.abs(expected).max()


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


def test_error_about_an_unknown_method_lists_the_known_ones() -> None:
    with pytest.raises(FrnError, match=r"unknown method 'ptoto'; choose one of: frn, proto.*logreg"):
        build_head("ptoto", 64)


def test_heads_fitted_to_each_episode_are_not_trained() -> None:
    with pytest.raises(FrnError, match=r"'logreg' is fitted to each episode\. Use it in `frn eval --method`"):
        RunOptions(preset="cub-small-conv4", method="logreg").override(find_preset("cub-small-conv4"))


class Nearest(Head):
    """A head from an external package."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.d = d

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        """Return logits (queries, way)."""
        return -torch.cdist(query.mean(1), support.mean((1, 2)))


class Wide(Nearest):
    """A head with two networks."""

    networks = 2


def wide(d: int) -> Head:
    return Wide(d)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register four heads from an external package, one of which works."""
    mine = [
        EntryPoint("nearest", f"{__name__}:Nearest", "frn.heads"),
        EntryPoint("plain", "torch.nn:Identity", "frn.heads"),
        EntryPoint("gone", "nowhere:Head", "frn.heads"),
        EntryPoint("wide", f"{__name__}:wide", "frn.heads"),
    ]
    monkeypatch.setattr(heads, "entry_points", lambda **only: EntryPoints(mine).select(**only))


@pytest.mark.usefixtures("registered")
def test_an_external_package_can_register_a_head(tmp_path: Path) -> None:
    assert heads.head_names()[-4:] == ["nearest", "plain", "gone", "wide"]
    model = Model(ModelConfig(backbone="conv4", method="nearest")).eval()
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors").head
    assert isinstance(again, Nearest)
    assert again.d == 64
    with pytest.raises(
        FrnError, match=r"method .plain.: its head cannot be created .*is a Identity, not a frn.heads.Head"
    ):
        build_head("plain", 64)
    with pytest.raises(FrnError, match=r"'wide': .*its own `networks`: register the class itself"):
        build_head("wide", 64)
    with pytest.raises(FrnError, match=r"method 'gone': its head cannot be created .*No module named 'nowhere'"):
        Model(ModelConfig(backbone="conv4", method="gone"))
    with pytest.raises(FrnError, match=r"unknown method 'frm'; choose one of: .*, nearest, plain, gone, wide"):
        build_head("frm", 64)
