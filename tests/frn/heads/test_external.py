"""Heads from external packages."""

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
import torch
from torch import Tensor

from frn import heads
from frn.errors import FrnError
from frn.heads import Head, build_head
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model, save_model
from frn.training.presets import find_preset
from frn.training.runs.run_options import RunOptions


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
