"""Compare every head's logits and gradients with the official code of its authors, and both with a float64 SVD.

Clone some or all repositories of `OFFICIAL` into one folder, each under its own name; their code is run, unchanged:

    git clone https://github.com/Tsingularity/FRN clones/FRN
    python assets/benchmarks/faithful.py clones
    python assets/benchmarks/faithful.py clones --golden tests/golden

The first command prints differences from the truth: the head in float64 with every system solved by singular values,
without an inverse, and with derivatives that are written out. The second recomputes each recorded array and prints how
far it is from the file; with `--write` it replaces the files. Shape letters are those of `frn.ridge.reconstruction`.
"""

import copy
import importlib
import json
import math
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import torch
import typer
from torch import Tensor, nn

from frn.cli.shell.console import print_table, user_errors
from frn.errors import FrnError
from frn.heads import HEADS, build_head, networks_for
from frn.heads.deepemd import import_solver
from frn.heads.head import Head
from frn.heads.vectors.classical import CLASSICAL

Load = Callable[[str], Any]
Logits = Callable[[Tensor, Tensor], Tensor]
Shape = tuple[int, int, int, int]
SHAPES = ((5, 1, 10, 64), (3, 2, 6, 64), (3, 1, 3, 640))
"""Episodes of 5 x 5 maps: way, shot, queries (the same number for each class) and channels of each network."""


PACKAGES = ("models", "Models", "methods", "modules", "trainers")
"""Top-level packages in the official repositories."""


class _Projection(torch.autograd.Function):
    """Project query locations (n, d) by P = S^T (S S^T + lam I)^-1 S of every class: (way, n, d)."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, pool: Tensor, lam: float) -> Tensor:
        left, values, right = torch.linalg.svd(pool, full_matrices=False)
        kept = (values**2 / (values**2 + lam))[:, None]
        ctx.save_for_backward(query, left * (values / (values**2 + lam))[:, None], kept, right)
        return (query @ right.mT * kept) @ right

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        query, scaled, kept, right = ctx.saved_tensors
        of_projector = query.mT @ gradient  # dP = K^T dS (I - P) + its transpose, with K = (S S^T + lam I)^-1 S
        through = scaled @ (right @ (of_projector + of_projector.mT))
        of_pool = through - (through @ right.mT * kept) @ right
        return ((gradient @ right.mT * kept) @ right).sum(0), of_pool, None


class _Solution(torch.autograd.Function):
    """Solve A X = B, (..., n, n) and (..., n, m), by singular values."""

    @staticmethod
    def forward(ctx: Any, system: Tensor, right: Tensor) -> Tensor:
        u, values, vh = torch.linalg.svd(system)
        solution = vh.mT @ ((u.mT @ right) / values[..., None])
        ctx.save_for_backward(u, values, vh, solution)
        return solution

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        u, values, vh, solution = ctx.saved_tensors
        of_right = u @ ((vh @ gradient) / values[..., None])
        return -of_right @ solution.mT, of_right


def _reconstruct(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    return rho * _Projection.apply(query, pool, float(torch.as_tensor(lam).detach()))


def _location_error(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    return (_reconstruct(query, pool, lam, rho) - query).square().sum(-1)


def _class_error(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    return _location_error(query.flatten(0, 1), pool, lam, rho).unflatten(1, query.shape[:2]).mean(-1).mT


EXACT: dict[str, Callable[..., Tensor]] = {
    "frn.heads.frn.class_error": _class_error,
    "frn.heads.lccrn.class_error": _class_error,
    "frn.heads.srm.reconstruct": _reconstruct,
    "frn.heads.tdm.reconstruct": _reconstruct,
    "frn.heads.vectors.regression.location_error": _location_error,
    "torch.linalg.solve": _Solution.apply,
    "torch.linalg.cholesky": lambda system: system,
    "torch.cholesky_solve": lambda right, system: _Solution.apply(system, right),
}
"""Every function through which a head solves a system, and the same by singular values."""


def true_logits(head: Head, support: Tensor, query: Tensor) -> Tensor:
    """Return the logits of a head in float64 whose systems are solved by singular values."""
    with ExitStack() as stack:
        for name, exact in EXACT.items():
            stack.enter_context(patch(name, exact))
        logits: Tensor = head(support, query)
    return logits


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
    attributes: dict[str, dict[str, object]] = {"cv2": {"EMD": transport, "DIST_USER": -1}}
    attributes |= {"qpth.qp": {"QPFunction": None}, "tensorboardX": {"SummaryWriter": None}}
    for name, values in attributes.items():
        vars(stubs[name]).update(values)
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
            if name.partition(".")[0] in PACKAGES or module in stubs.values():
                del sys.modules[name]


def _scalars(state: Mapping[str, Tensor], prefix: str = "") -> dict[str, Tensor]:
    alpha, beta, gamma = (state[f"{prefix}{name}"] for name in ("alpha", "beta", "gamma"))
    return {"r": torch.stack([alpha, beta]), "scale": gamma[None]}


LCEM, FSRM = "lcem_module.1", "fsrm.transformer"
LAYERS = {
    "lccrn": {
        **{
            f"enrich.{ours}.{i}": f"{LCEM}.conv1x1_{theirs}.{i}"
            for i in (0, 1)
            for ours, theirs in (("before", "in"), ("after", "out"))
        },
        **{f"enrich.inside.{3 * block + i}": f"{LCEM}.conv{block + 1}.{i}" for block in (0, 1) for i in (0, 1)},
    },
    "bifrn": {
        "itself.before_attention": f"{FSRM}.blocks.0.pre_norm",
        "itself.attention": f"{FSRM}.blocks.0.self_attn.qkv",
        "itself.attended": f"{FSRM}.blocks.0.self_attn.proj",
        "itself.after_attention": f"{FSRM}.blocks.0.norm1",
        "itself.inner": f"{FSRM}.blocks.0.linear1",
        "itself.outer": f"{FSRM}.blocks.0.linear2",
        "itself.last": f"{FSRM}.norm",
        "projections": "fmrm.to_qkv.0",
    },
    "tdm": {
        f"weights.{part}.{layer}": f"TDM.{their_part}.{their_layer}"
        for part, their_part in (("within", "prt_self"), ("between", "prt_other"), ("query", "qry_self"))
        for layer, their_layer in (("wide", "linear1"), ("norm", "bn1"), ("narrow", "linear2"))
    },
}
"""Names of layers of our heads and, after the colon, in the official code."""


def their_state(name: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a head's weights under the names and in the shapes of the official code."""
    theirs: dict[str, Tensor] = {}
    for key, value in state.items():
        layer, _, kind = key.rpartition(".")
        if renamed := LAYERS.get(name.rpartition("-")[2], {}).get(layer):
            inside = layer.startswith("enrich.inside") and value.dim() == 4  # theirs are convolutions of volumes
            theirs[f"{renamed}.{kind}"] = value[:, :, None] if inside else value
    if name in ("frn", "frn-tdm", "srm"):
        theirs |= _scalars(state, "" if name == "frn" else "frn.")
    elif name in ("proto", "proto-tdm", "bifrn", "lccrn"):
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
    wide, counts = d > 64, [shot, queries // way]
    module = {"frn": "FRN", "srm": "FRN", "proto": "Proto", "bifrn": "BiFRN", "lccrn": "LCCRN"}.get(name)
    if module is None:  # TDM
        module = "FRN" if name == "frn-tdm" else "Proto"
        args = SimpleNamespace(TDM=True, noise=False, model=module, resnet=wide, train_way=way)
        args.train_shot, args.train_query_shot = counts
        model = getattr(load(f"models.{module}"), module)(args)
    else:
        model = getattr(load(f"models.{module}"), module)(way=way, shots=counts, resnet=wide)
    if name == "lccrn":
        model.feature_extractor_1, model.feature_extractor_2 = _Maps(0, 2), _Maps(1, 2)
    else:
        model.feature_extractor = _Maps(scale=math.sqrt(d) if wide and HEADS[name](d).scaled_maps else 1.0)

    def logits(support: Tensor, query: Tensor) -> Tensor:
        result = model(torch.cat([support.flatten(0, 1), query]))
        log_probability: Tensor = result[0] if isinstance(result, tuple) else result
        return log_probability

    return model, logits


def _mcl(load: Load, _name: str, shape: Shape) -> tuple[Any, Logits]:
    mel = SimpleNamespace(gamma=20.0, gamma2=10.0, katz_factor=0.5)  # its default configuration
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
        assert not model.load_state_dict(their_state(name, head.state_dict()), strict=False).unexpected_keys

    def by_maps(support: Tensor, query: Tensor) -> Tensor:
        with patch.object(torch.Tensor, "cuda", lambda tensor: tensor):
            return logits(*(m.mT.unflatten(-1, (5, 5)).contiguous() for m in (support, query)))

    return by_maps


def by_rule(state: Mapping[str, Tensor], seed: int = 0) -> None:
    """Fill weights with values that depend only on their names, as in all recordings."""
    for key, value in state.items():
        if not value.is_floating_point():
            continue
        z = np.asarray(np.random.default_rng(zlib.crc32(key.encode()) + seed).standard_normal(value.shape))
        z = z.astype(str(value.dtype)[6:])  # rounded first, as the recordings were
        if value.dim() > 1:
            z *= np.sqrt(2 / (value.numel() / value.shape[1]))
        elif key in ("r", "scale"):
            z = np.array([0.4, -0.2] if key == "r" else [1.7])
        elif key.endswith("running_var"):
            z = 1 + 0.1 * np.abs(z)
        else:
            z = key.endswith(("weight", "gamma")) + 0.1 * z
        value.copy_(torch.as_tensor(z))


def episode(shape: Shape, networks: int = 1) -> tuple[Tensor, Tensor]:
    """Return support and query maps of a shape, the same everywhere; half of their values are zero."""
    way, shot, queries, d = shape
    draw = np.random.default_rng(0).standard_normal((way * shot + queries, 25, d * networks)).clip(0)
    maps = torch.from_numpy(draw) / (math.sqrt(d) if d > 64 else 1.0)  # those of ResNet-12 are scaled
    return maps[: way * shot].unflatten(0, (way, shot)), maps[way * shot :]


def results(logits: Logits, support: Tensor, query: Tensor) -> list[Tensor]:
    """Return the log probabilities, and gradients for query and support, in float64."""
    slope = torch.randn(len(query), len(support), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    maps = [m.clone().requires_grad_() for m in (support, query)]
    values = logits(*maps).log_softmax(-1)
    of_support, of_query = torch.autograd.grad((values * slope.to(values.dtype)).sum(), maps)
    return [m.detach().double() for m in (values, of_query, of_support)]


def differences(compared: Logits, head: Head, support: Tensor, query: Tensor) -> list[float]:
    """Return the relative differences from the truth of log probabilities, and of gradients for query and support."""
    exact = copy.deepcopy(head).double()
    truth = results(lambda s, q: true_logits(exact, s, q), support.double(), query.double())
    return [distance(ours, true) for ours, true in zip(results(compared, support, query), truth, strict=True)]


def distance(values: Tensor, truth: Tensor) -> float:
    """Return the length of the difference relative to that of the truth."""
    return float((values - truth).norm() / truth.norm())


def _recorded_heads(clones: Path) -> dict[str, Tensor]:
    """Return log probabilities of each official code, and gradients for the first channel of its maps, in float64."""
    arrays: dict[str, Tensor] = {}
    torch.set_default_dtype(torch.float64)  # the authors make lambda I in the default type
    for name, networks in ((name, networks_for(name)) for name in OFFICIAL):
        for shape in SHAPES:
            head = build_head(name, shape[3] * networks).eval()
            by_rule(head.state_dict())
            if (logits := official(clones, name, head, shape)) is None:
                continue
            values, of_query, of_support = results(logits, *episode(shape, networks))
            keys = {"log_probability": values, "query": of_query[..., 0], "support": of_support[..., 0]}
            if name == "deepemd":  # with OpenCV as the solver, its weights get no gradient
                keys = {"log_probability": values}
            arrays |= {f"{name}/{'-'.join(map(str, shape))}/{key}": value for key, value in keys.items()}
    return arrays


def _recorded_errors(load: Load, case: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the errors of FRN's official code for recorded features; it stores lambda in float32."""
    query, pool, (alpha, beta) = case["query"], case["support"], case["alpha_beta"]
    errors = load("models.FRN").FRN.get_recon_dist(SimpleNamespace(), query.flatten(0, 1), pool, alpha, beta)
    errors = errors.unflatten(0, query.shape[:2])
    return {"location_error": errors, "class_error": errors.mean(1)}


def _recorded_episode(load: Load, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the answer of FRN's official code to recorded feature maps of Conv-4, and its auxiliary loss."""
    pool, query = arrays["support"].flatten(1, 2), arrays["query"].flatten(0, 1)
    errors = load("models.FRN").FRN.get_recon_dist(SimpleNamespace(), query, pool, *arrays["alpha_beta"])
    logits = -errors.unflatten(0, arrays["query"].shape[:2]).mean(1) * arrays["gamma"]
    return {"log_probability": logits.log_softmax(1), "aux_loss": load("trainers.frn_train").auxrank(pool)}


def _recorded_network(load: Load, path: Path, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what a whole official network computes for recorded images, or a training step for images by rule."""
    training, wide = path.stem == "training", "resnet12" in path.stem
    counts: dict[str, Any] = {"way": 3, "shots": [2, 2], "resnet": wide}
    if path.stem.startswith("pretrain"):
        counts |= {"is_pretraining": True, "num_cat": arrays["log_probability"].shape[1]}
    module = "Proto" if path.stem.startswith("proto") else "FRN"
    model = getattr(load(f"models.{module}"), module)(**counts)
    if training:
        model.double()
        by_rule(model.state_dict())
        images = torch.from_numpy(np.random.default_rng(zlib.crc32(b"images")).standard_normal((12, 3, 84, 84)))
    else:
        images = arrays["images"]
        if wide:
            by_rule(model.state_dict(), json.loads(path.with_suffix(".keys.json").read_text())["seed"])
        else:
            model.load_state_dict(torch.load(path.with_suffix(".pth"), weights_only=True))
    model.train(training)
    if "is_pretraining" in counts:
        return {"log_probability": model.forward_pretrain(images)}
    if module == "Proto":
        return {"log_probability": model(images)}
    log_probability, pool = model(images)
    aux = load("trainers.frn_train").auxrank(pool)
    loss = nn.functional.nll_loss(log_probability, torch.arange(3).repeat_interleave(2)) + aux
    loss.backward()
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    first = next(p for p in model.parameters() if p.dim() == 4)
    computed: dict[str, Any] = {
        "log_probability": log_probability,
        "aux_loss": aux,
        "loss": loss,
        "grad_alpha_beta": model.r.grad,
        "grad_gamma": model.scale.grad,
        "grad_conv1": first.grad,
        "grad_first": first.grad,
        "grad_last": norms[-1].weight.grad,
        "mean_first": norms[0].running_mean,
        "var_last": norms[-1].running_var,
    }
    if "feature_map" in arrays:
        computed["feature_map"] = model.get_feature_map(images)
    return {key: computed[key] for key in arrays if key in computed}


def recomputed(clones: Path, path: Path) -> dict[str, Tensor]:
    """Return the outputs in a file of recorded arrays, computed again by official code from the file's inputs."""
    if path.stem == "heads":
        return _recorded_heads(clones)
    torch.set_default_dtype(torch.float64 if path.stem == "training" else torch.float32)
    with np.load(path) as file:
        arrays = {key: torch.from_numpy(file[key]) for key in file.files}
    with official_code(clones / "FRN") as load:
        if path.stem == "episode":
            return _recorded_episode(load, arrays)
        if path.stem != "head":
            return _recorded_network(load, path, arrays)
        errors: dict[str, Tensor] = {}
        for prefix in {key.rpartition("/")[0] for key in arrays}:
            case = {key.rpartition("/")[2]: value for key, value in arrays.items() if key.rpartition("/")[0] == prefix}
            errors |= {f"{prefix}/{key}".lstrip("/"): value for key, value in _recorded_errors(load, case).items()}
        return errors


def golden_rows(clones: Path, folder: Path, write: bool) -> Iterator[tuple[str, str, str]]:
    """Recompute every recorded array in a folder; give its file, its name and how far the file is from it."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            recorded = {key: file[key] for key in file.files}
        again = {key: value.detach().numpy() for key, value in recomputed(clones, path).items()}
        for key, value in again.items():
            known = key in recorded and recorded[key].shape == value.shape
            far = distance(*(torch.from_numpy(a).double() for a in (recorded[key], value))) if known else math.nan
            yield path.name, key, f"{far:.1e}"
        if write:
            np.savez_compressed(path, **{**recorded, **again})


@user_errors()
def main(
    clones: Annotated[Path, typer.Argument(help="Folder with clones of the official repositories.")],
    golden: Annotated[Path | None, typer.Option(help="Recompute the recorded arrays in this folder.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Replace the recorded arrays.")] = False,
) -> None:
    """Print a table of the largest relative differences from the truth over all shapes, ours and theirs."""
    if golden:
        print_table(("file", "array", "difference"), list(golden_rows(clones, golden, write)))
        return
    rows = []
    for name in (*OFFICIAL, *sorted(HEADS.keys() - OFFICIAL.keys() - CLASSICAL.keys())):
        for alpha in (None, -9.0) if name in ("frn", "frn-tdm") else (None,):
            for dtype in (torch.float64, torch.float32):
                torch.set_default_dtype(dtype)  # the authors make lambda I in the default type
                worst: dict[str, list[float]] = {}
                for shape in SHAPES:
                    networks = networks_for(name)
                    if name == "deepemd" and shape[1] > 1:
                        continue
                    head = build_head(name, shape[3] * networks).eval()
                    by_rule(head.state_dict())
                    for key, value in head.state_dict().items():
                        if alpha is not None and key.endswith("alpha"):
                            value.fill_(alpha)
                    maps = [m.to(dtype) for m in episode(shape, networks)]
                    codes: dict[str, Logits | None] = {
                        "frn": head,
                        _commit(clones, name): official(clones, name, head, shape),
                    }
                    for code, logits in codes.items():
                        if logits is not None:
                            far = differences(logits, head, *maps)
                            worst[code] = [max(pair) for pair in zip(far, worst.get(code, far), strict=True)]
                for code, far in worst.items():
                    shown = "as drawn" if alpha is None else f"{alpha:g}"
                    rows.append((name, shown, str(dtype)[6:], code, *(f"{value:.1e}" for value in far)))
    torch.set_default_dtype(torch.float32)
    print_table(("head", "alpha", "type", "code", "log probability", "query gradient", "support gradient"), rows)


def _commit(clones: Path, name: str) -> str:
    folder = clones / OFFICIAL.get(name, ("",))[0].rpartition("/")[2]
    words = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(words, check=False, capture_output=True, text=True).stdout.strip()
    return f"authors, {commit or 'unknown commit'}"


if __name__ == "__main__":
    typer.run(main)
