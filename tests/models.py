"""A small model with random weights, the same in every test."""

import torch

from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model


def small_model(method: str = "frn", seed: int = 0) -> Model:
    torch.manual_seed(seed)
    transform = EvaluationTransform(size=32)
    return Model(ModelConfig(backbone="conv4", method=method, last_pool=False, transform=transform)).eval()
