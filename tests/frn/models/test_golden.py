"""Whole episodes from the authors' code, loaded from their checkpoint format: features, losses, gradients."""

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from faithful import by_rule
from torch import Tensor

from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model, import_reference, read_reference
from frn.training.losses import AUX_WEIGHT, auxiliary_loss

AS_IS = EvaluationTransform(size=84)
WAY, SHOT, QUERIES = 3, 2, 2


def kind(key: str, floating: torch.dtype = torch.float32) -> torch.dtype:
    return torch.long if key.endswith("num_batches_tracked") else floating


def load(golden: Path, name: str, tmp_path: Path) -> tuple[Model, dict[str, Tensor]]:
    path = golden / f"{name}.pth"
    if name == "frn-resnet12":
        path = tmp_path / "frn-resnet12.pth"
        recipe = json.loads((golden / "frn-resnet12.keys.json").read_text())
        state = {key: torch.zeros(shape, dtype=kind(key)) for key, shape in recipe["shapes"].items()}
        by_rule(state, recipe["seed"])
        torch.save(state, path)
    model = import_reference(path, transform=AS_IS)
    model.mean.zero_()  # the recorded images are already normalised
    model.std.fill_(1.0)
    arrays = np.load(golden / f"{name}.npz")
    return model, {key: torch.from_numpy(arrays[key]) for key in arrays.files}


def assert_near(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    """Require agreement within `tolerance` of the array's largest value."""
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= tolerance * theirs.abs().max(), f"{(ours - theirs).abs().max():.3g}"


def training_loss(logits: Tensor, support: Tensor) -> Tensor:
    target = torch.arange(WAY).repeat_interleave(QUERIES)
    return torch.nn.functional.cross_entropy(logits, target) + AUX_WEIGHT * auxiliary_loss(support, "reference")


@pytest.mark.parametrize(("name", "tolerance"), [("frn-conv4", 1e-5), ("frn-resnet12", 1e-4)])
def test_frn_episode_equals_that_of_the_authors(golden: Path, tmp_path: Path, name: str, tolerance: float) -> None:
    model, arrays = load(golden, name, tmp_path)
    maps = model.feature_maps(arrays["images"])
    assert_near(maps, arrays["feature_map"], tolerance)
    support, query = maps[: WAY * SHOT].unflatten(0, (WAY, SHOT)), maps[WAY * SHOT :]
    log_probability = model.head(support, query).log_softmax(-1)
    assert_near(log_probability, arrays["log_probability"], tolerance)
    aux = AUX_WEIGHT * auxiliary_loss(support, "reference")
    assert_near(aux, arrays["aux_loss"], tolerance)
    assert_near(training_loss(model.head(support, query), support), arrays["loss"], tolerance)


def test_protonet_episode_equals_that_of_the_authors(golden: Path, tmp_path: Path) -> None:
    model, arrays = load(golden, "proto-conv4", tmp_path)
    maps = model.feature_maps(arrays["images"])
    support, query = maps[: WAY * SHOT].unflatten(0, (WAY, SHOT)), maps[WAY * SHOT :]
    assert_near(model.head(support, query).log_softmax(-1), arrays["log_probability"], 1e-5)


def test_a_pretraining_checkpoint_provides_its_backbone_and_temperature(golden: Path, tmp_path: Path) -> None:
    model = import_reference(golden / "pretrain-conv4.pth", transform=AS_IS)
    state = torch.load(golden / "pretrain-conv4.pth", weights_only=True)
    alpha, beta, gamma = (parameter.item() for parameter in model.head.parameters())
    assert (alpha, beta, gamma) == (0.0, 0.0, state["scale"].item())


def authors_state() -> dict[str, Tensor]:
    """A checkpoint for the authors' Conv-4 in float64, with the weights of `training.npz`."""
    shapes: dict[str, tuple[int, ...]] = {"r": (2,), "scale": (1,)}
    for layer in (0, 3, 6, 9):
        name = f"feature_extractor.layers.{layer}.layers"
        shapes[f"{name}.0.weight"] = (64, 64 if layer else 3, 3, 3)
        vectors = ("0.bias", "1.bias", "1.weight", "1.running_mean", "1.running_var")
        shapes |= {f"{name}.{vector}": (64,) for vector in vectors} | {f"{name}.1.num_batches_tracked": ()}
    state = {key: torch.zeros(shape, dtype=kind(key, torch.float64)) for key, shape in shapes.items()}
    by_rule(state)
    return state


def test_training_step_equals_that_of_the_authors_forward_and_backward(tmp_path: Path) -> None:
    """Loss, gradients and running statistics agree to 1e-9, in training mode and float64."""
    torch.save(authors_state(), tmp_path / "authors.pth")
    as_is = ModelConfig(backbone="conv4", method="frn", transform=AS_IS, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    model = Model(as_is).double().train()
    model.load_state_dict(read_reference(tmp_path / "authors.pth"))
    generator = np.random.default_rng(zlib.crc32(b"images"))
    maps = model.feature_maps(torch.from_numpy(generator.standard_normal((WAY * (SHOT + QUERIES), 3, 84, 84))))
    support, query = maps[: WAY * SHOT].unflatten(0, (WAY, SHOT)), maps[WAY * SHOT :]
    logits = model.head(support, query)
    loss = training_loss(logits, support)
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    found = {
        "loss": loss,
        "log_probability": logits.log_softmax(1),
        "grad_alpha_beta": torch.stack([gradients["head.alpha"], gradients["head.beta"]]),
        "grad_gamma": gradients["head.gamma"][None],
        "grad_first": gradients["backbone.blocks.0.conv.weight"],
        "grad_last": gradients["backbone.blocks.3.norm.weight"],
        "mean_first": model.get_buffer("backbone.blocks.0.norm.running_mean"),
        "var_last": model.get_buffer("backbone.blocks.3.norm.running_var"),
    }
    arrays = np.load(Path(__file__).parents[2] / "golden" / "training.npz")
    for name in arrays.files:
        assert_near(found[name], torch.from_numpy(arrays[name]), 1e-9)
