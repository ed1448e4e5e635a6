"""The shipped models for `torch.hub`: `torch.hub.load("OWNER/REPOSITORY", "resnet12_small")`.

Each is a `frn.models.Model`: `feature_maps(images (b, 3, H, W) in [0, 1]) -> (b, r, d)`, and `head(support, query)`.
"""

from functools import partial

from frn.models.model import load_model as _load_model
from frn.models.zoo import shipped_models as _shipped_models

dependencies = ["torch", "torchvision", "numpy", "PIL", "safetensors", "platformdirs"]

globals().update({name.replace("-", "_"): partial(_load_model, name) for name in _shipped_models()})
