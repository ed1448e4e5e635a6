"""A head from an external package receives the maps from several blocks of one backbone."""

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
import torch
from frn_export.graphs.backbone import features_graph
from frn_export.parity import compare_features
from torch import Tensor

from frn import heads
from frn.backbones.backbone import Stages
from frn.backbones.conv4 import Conv4
from frn.errors import FrnError
from frn.heads.frn import FRNHead
from frn.heads.head import Head, Sizes, stage_maps
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model, save_model


class TwoScales(Head):
    """The sum of FRN's logits for the maps from the last two blocks."""

    maps = (-2, -1)

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.frn = FRNHead()

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        pairs = zip(stage_maps(support, self.sizes), stage_maps(query, self.sizes), strict=True)
        fine, coarse = (self.frn(*pair) for pair in pairs)
        return fine + coarse


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    mine = [EntryPoint("two-scales", f"{__name__}:TwoScales", "frn.heads")]
    monkeypatch.setattr(heads, "entry_points", lambda **only: EntryPoints(mine).select(**only))
    torch.manual_seed(0)
    return Model(ModelConfig(backbone="conv4", method="two-scales", transform=EvaluationTransform(size=84))).eval()


def test_logits_use_the_maps_of_both_blocks(model: Model) -> None:
    images = torch.rand(5, 3, 84, 84)
    with torch.no_grad():
        maps = model.feature_maps(images)
        found = model.head(maps[:4].unflatten(0, (2, 2)), maps[4:])
        x = (images - model.mean) / model.std
        alone = [x := block(x) for block in model.backbone.network.blocks]  # type: ignore[union-attr]
        fine, coarse = alone[-2][..., :10, :10].flatten(2).mT, alone[-1].flatten(2).mT
        head = FRNHead()
        expected = sum(head(each[:4].unflatten(0, (2, 2)), each[4:]) for each in (fine, coarse))
    assert maps.shape == (5, 25, 4 * 64 + 64)
    torch.testing.assert_close(found, expected)


def test_model_with_several_blocks_is_saved_and_exported(model: Model, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    images = torch.rand(2, 3, 84, 84)
    torch.testing.assert_close(again.feature_maps(images), model.feature_maps(images))
    assert compare_features(model, features_graph(model).SerializeToString()).require()


def test_probing_leaves_running_statistics_unchanged() -> None:
    network = Conv4()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    Stages(network, (-2, -1), 84)
    assert network.training
    torch.testing.assert_close(network.state_dict(), before)


def test_network_without_such_blocks_is_refused() -> None:
    with pytest.raises(FrnError, match="a Conv4 lacks the blocks -5, -1"):
        Stages(Conv4(), (-5, -1), 84)
