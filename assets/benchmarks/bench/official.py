"""The official code of heads: which repository and model, and how its weights and images correspond to ours."""

import importlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from frn.errors import FrnError
from frn.heads import HEADS
from frn.heads.deepemd import import_solver
from frn.heads.head import Head

Load = Callable[[str], Any]
Logits = Callable[[Tensor, Tensor], Tensor]
Shape = tuple[int, int, int, int]
"""Way, shot, queries (the same number for each class) and channels of each network."""


class _Maps(nn.Module):
    """Backbone of an official model: pass maps through in place of images, or one network's share of their channels."""

    def __init__(self, network: int = 0, networks: int = 1, scale: float = 1.0, d: int = 64) -> None:
        super().__init__()
        self.network, self.networks, self.scale = network, networks, scale
        self.feat_dim = [d, 5, 5]  # as DeepBDC expects it

    def forward(self, maps: Tensor) -> Tensor:
        return maps.chunk(self.networks, 1)[self.network] * self.scale  # a copy, because some models write into it


@contextmanager
def official_code(folder: Path) -> Iterator[Load]:
    """Import modules from a clone without CUDA, and forget them afterwards.

    Modules that the comparison does not need are empty. OpenCV's transport is solved by POT, which is exact. Raises
    FrnError if a module cannot be imported.
    """

    def transport(supply: Any, demand: Any, _kind: object, costs: Any) -> tuple[float, None, Any]:
        sources, targets = (part[:, 0].astype(np.float64) for part in (supply, demand))
        return 0.0, None, import_solver().emd(sources, targets * (sources.sum() / targets.sum()), costs)

    stubs = {name: ModuleType(name) for name in ("cv2", "qpth", "qpth.qp", "scipy.misc", "tensorboardX")}
    vars(stubs["cv2"]).update(EMD=transport, DIST_USER=-1)
    vars(stubs["qpth.qp"])["QPFunction"] = vars(stubs["tensorboardX"])["SummaryWriter"] = None
    packages = ("models", "Models", "methods", "modules", "trainers")
    places, no_cuda = [str(folder.absolute()), *sys.path], lambda tensor: tensor
    try:
        with ExitStack() as stack:
            stack.enter_context(patch.object(sys, "path", places))
            stack.enter_context(patch.object(torch.Tensor, "cuda", no_cuda))
            stack.enter_context(patch.object(nn.Module, "cuda", no_cuda))
            sys.modules.update({name: stub for name, stub in stubs.items() if name not in sys.modules})
            yield importlib.import_module
    except ImportError as error:
        raise FrnError(
            f"{folder}: is not the official code ({error}). Clone the repository that the script names."
        ) from error
    finally:
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in packages or module in stubs.values():
                del sys.modules[name]


BIFRN = ("attention", "attended", "before_attention", "inner", "outer", "after_attention", "last", "projections")


def their_state(name: str, state: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Return a head's weights under the names and in the shapes of the official model.

    Both have their layers in the same order, but for those of Bi-FRN. LCCRN narrows and widens only wide maps.
    """
    layers = [key for key in state if key.startswith(("weights.", "enrich.", "itself.", "projections."))]
    layers.sort(key=lambda key: BIFRN.index(key.split(".")[-2]) if name == "bifrn" else 0)
    unused = ("positional_emb",) if "enrich.before.0.weight" in state else ("positional_emb", "conv1x1")
    shapes = {key: value.shape for key, value in model.state_dict().items() if not any(part in key for part in unused)}
    shapes = {key: s for key, s in shapes.items() if key.startswith(("TDM.", "lcem_module.1.", "fsrm.", "fmrm."))}
    theirs = {key: state[layer].view(s) for layer, (key, s) in zip(layers, shapes.items(), strict=True)}
    if name in ("frn", "frn-tdm", "srm"):
        alpha, beta, gamma = (state[f"{'' if name == 'frn' else 'frn.'}{key}"] for key in ("alpha", "beta", "gamma"))
        theirs |= {"r": torch.stack([alpha, beta]), "scale": gamma[None]}
    elif "gamma" in state:
        theirs["scale"] = state["gamma"][None]
    if name == "srm":
        theirs["r_Q"] = torch.stack([state["own_alpha"], state["own_beta"]])
    elif name == "bifrn":
        theirs |= {"w1": state["weight_back"][None], "w2": state["weight_forth"][None]}
    elif name == "lccrn":
        theirs |= {"r": torch.cat([state["alpha"], state["beta"]]), "W": state["weights"][:, None]}
    elif name == "deepbdc":
        theirs["dcov.temperature"] = (state["log_scale"] - math.log(25)).view(1, 1)
    return theirs


def _reconstruction_model(load: Load, name: str, shape: Shape) -> tuple[Any, Logits]:
    """Return the whole official model of a method that is built upon the code of FRN, and its forward pass."""
    way, shot, queries, d = shape
    module = {"frn": "FRN", "srm": "FRN", "frn-tdm": "FRN", "bifrn": "BiFRN", "lccrn": "LCCRN"}.get(name, "Proto")
    build, wide, counts = getattr(load(f"models.{module}"), module), d > 64, [shot, queries // way]
    if name.endswith("tdm"):
        args = SimpleNamespace(TDM=True, noise=False, model=module, resnet=wide, train_way=way)
        args.train_shot, args.train_query_shot = counts
        model = build(args)
    else:
        model = build(way=way, shots=counts, resnet=wide)
    if name == "lccrn":
        model.feature_extractor_1, model.feature_extractor_2 = _Maps(0, 2), _Maps(1, 2)
    else:
        model.feature_extractor = _Maps(scale=math.sqrt(d) if wide and HEADS[name](d).scaled_maps else 1.0)

    def logits(support: Tensor, query: Tensor) -> Tensor:
        result = model(torch.cat([support.flatten(0, 1), query]))
        log_probability: Tensor = result[0] if isinstance(result, tuple) else result
        return log_probability

    return model, logits


def _mcl(load: Load, name: str, shape: Shape) -> tuple[Any, Logits]:
    gamma = 40.0 if name == "mcl-fine" else 20.0  # configs/CUB_FSL and configs/miniImagenet
    mel = SimpleNamespace(gamma=gamma, gamma2=10.0, katz_factor=0.5)
    model = load("modules.query.mel").MEL(64, SimpleNamespace(model=SimpleNamespace(mel=mel)))
    del model.criterion
    model.criterion = lambda log_probability, _labels: log_probability
    labels = torch.zeros(shape[2], dtype=torch.long)
    return model, lambda s, q: model(s.flatten(0, 1)[None], None, q[None], labels, *shape[:2])[1]


def _deepbdc(load: Load, _name: str, shape: Shape) -> tuple[Any, Logits]:
    way, shot, queries, d = shape
    params = SimpleNamespace(n_query=queries // way, reduce_dim=d)
    load("methods.template").Variable = lambda maps: maps  # it would detach them
    model = load("methods.meta_deepbdc").MetaDeepBDC(params, lambda: _Maps(d=d), way, shot)
    return model, lambda s, q: model.set_forward(torch.cat([s, q.unflatten(0, (way, -1))], 1))


def _deepemd(load: Load, _name: str, _shape: Shape) -> tuple[Any, Logits]:
    args = SimpleNamespace(solver="opencv", norm="center", metric="cosine", temperature=12.5, pretrain_mode=None)
    with patch.object(load("Models.models.Network"), "ResNet", lambda args: _Maps()):
        model = load("Models.models.Network").DeepEMD(args)
    return model, lambda s, q: model((s.flatten(0, 1)[None], q))


TDM = "leesb7426/CVPR2022-Task-Discrepancy-Maximization-for-Fine-grained-Few-Shot-Classification"
OFFICIAL: dict[str, tuple[str, Callable[[Load, str, Shape], tuple[Any, Logits]]]] = {
    "frn": ("Tsingularity/FRN", _reconstruction_model),
    "proto": ("Tsingularity/FRN", _reconstruction_model),
    "frn-tdm": (TDM, _reconstruction_model),
    "proto-tdm": (TDM, _reconstruction_model),
    "bifrn": ("PRIS-CV/Bi-FRN", _reconstruction_model),
    "srm": ("liz-lut/SRM-main", _reconstruction_model),
    "lccrn": ("lutsong/LCCRN", _reconstruction_model),
    "mcl": ("LouieYang/MCL", _mcl),
    "mcl-fine": ("LouieYang/MCL", _mcl),
    "deepbdc": ("Fei-Long121/DeepBDC", _deepbdc),
    "deepemd": ("icoz69/DeepEMD", _deepemd),
}
"""Repository and model of every head whose authors have published PyTorch code."""


def official(clones: Path, name: str, head: Head, shape: Shape) -> Logits | None:
    """Return the official forward pass with the weights of our head; None without a clone or for an unknown shape."""
    if name not in OFFICIAL or not (folder := clones / OFFICIAL[name][0].partition("/")[2]).is_dir():
        return None
    if name == "deepemd" and shape[1] > 1:
        return None  # it fits a class's map by SGD on random batches
    dtype = next(iter(head.state_dict().values()), torch.zeros((), dtype=torch.get_default_dtype())).dtype
    with official_code(folder) as load:
        model, logits = OFFICIAL[name][1](load, name, shape)
        model.to(dtype).eval()  # before the weights, so that none is rounded
        weights = their_state(name, head.state_dict(), model)
        assert not model.load_state_dict(weights, strict=False).unexpected_keys

    def by_maps(support: Tensor, query: Tensor) -> Tensor:
        with patch.object(torch.Tensor, "cuda", lambda tensor: tensor):
            return logits(*(m.mT.unflatten(-1, (5, 5)).contiguous() for m in (support, query)))

    return by_maps
