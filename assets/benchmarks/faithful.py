"""Compare every head's logits and gradients with the official code of its authors, and both with a float64 SVD.

Clone some or all repositories of `OFFICIAL` (`bench/official.py`) into one folder, each under its own name; their code
is run, unchanged:

    git clone https://github.com/Tsingularity/FRN clones/FRN
    python assets/benchmarks/faithful.py clones
    python assets/benchmarks/faithful.py clones --golden tests/golden

The first command prints differences from the truth: the head in float64 with every system solved by singular values,
without an inverse, and with derivatives that are written out. The second recomputes each recorded array and prints how
far it is from the file; with `--write` it replaces the files. Shape letters are those of `frn.ridge.reconstruction`.
"""

import copy
import json
import math
import subprocess
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import torch
import typer
from bench.official import OFFICIAL, Load, Logits, Shape, official, official_code
from torch import Tensor, nn

from frn.cli.shell.console import print_table, user_errors
from frn.heads import HEADS, build_head, networks_for
from frn.heads.head import Head
from frn.heads.vectors.classical import CLASSICAL

SHAPES = ((5, 1, 10, 64), (3, 2, 6, 64), (3, 1, 3, 640))
"""Episodes of 5 x 5 maps."""


def project(query: Tensor, pool: Tensor, lam: float) -> Tensor:
    """Project query locations (n, d) by P = S^T (S S^T + lam I)^-1 S of every class: (way, n, d).

    Equal singular values have no derivative. So a term of value zero adds dP = K^T dS (I - P) + its transpose, with
    K = (S S^T + lam I)^-1 S.
    """
    left, values, right = torch.linalg.svd(pool.detach(), full_matrices=False)
    kept = (values**2 / (values**2 + lam))[:, None]
    inverse = left * (values / (values**2 + lam))[:, None] @ right  # K

    def project(rows: Tensor) -> Tensor:
        return (rows @ right.mT * kept) @ right

    projected, moved = project(query), pool - pool.detach()
    through = query.detach() @ inverse.mT @ moved
    return projected + through - project(through) + (query - projected).detach() @ moved.mT @ inverse


def solve(system: Tensor, right: Tensor) -> Tensor:
    """Solve A X = B, (..., n, n) and (..., n, m), by singular values; one step of refinement has the derivative."""
    u, values, vh = torch.linalg.svd(system.detach())

    def inverse(rows: Tensor) -> Tensor:
        return vh.mT @ ((u.mT @ rows) / values[..., None])

    solution = inverse(right.detach())
    return solution + inverse(right - system @ solution)


def _reconstruct(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    return rho * project(query, pool, float(torch.as_tensor(lam).detach()))


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
    "torch.linalg.solve": solve,
    "torch.linalg.cholesky": lambda system: system,
    "torch.cholesky_solve": lambda right, system: solve(system, right),
}
"""Every function through which a head solves a system, and the same by singular values."""


def true_logits(head: Head, support: Tensor, query: Tensor) -> Tensor:
    """Return the logits of a head in float64 whose systems are solved by singular values."""
    with ExitStack() as stack:
        for name, exact in EXACT.items():
            stack.enter_context(patch(name, exact))
        logits: Tensor = head(support, query)
    return logits


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


def _recorded_errors(load: Load, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the errors of FRN's official code for recorded maps, or its answer to an episode and auxiliary loss."""
    computed: dict[str, Tensor] = {}
    for prefix in {key.rpartition("/")[0] for key in arrays}:
        case = {key.rpartition("/")[2]: value for key, value in arrays.items() if key.rpartition("/")[0] == prefix}
        query, pool = case["query"], case["support"].flatten(1, -2)
        errors = (
            load("models.FRN")
            .FRN.get_recon_dist(SimpleNamespace(), query.flatten(0, 1), pool, *case["alpha_beta"])
            .unflatten(0, query.shape[:2])
        )
        values = {"location_error": errors, "class_error": errors.mean(1)}
        if "gamma" in case:
            log_probability = (-errors.mean(1) * case["gamma"]).log_softmax(1)
            values = {"log_probability": log_probability, "aux_loss": load("trainers.frn_train").auxrank(pool)}
        computed |= {f"{prefix}/{key}".lstrip("/"): value for key, value in values.items()}
    return computed


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
        if path.stem in ("head", "episode"):
            return _recorded_errors(load, arrays)
        return _recorded_network(load, path, arrays)


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
    names = (*OFFICIAL, *sorted(HEADS.keys() - OFFICIAL.keys() - CLASSICAL.keys()))
    alphas = {name: (None, -9.0) if name in ("frn", "frn-tdm") else (None,) for name in names}
    for name, alpha, dtype in ((n, a, t) for n in names for a in alphas[n] for t in (torch.float64, torch.float32)):
        torch.set_default_dtype(dtype)  # the authors make lambda I in the default type
        worst: dict[str, list[float]] = {}
        for shape in SHAPES if name != "deepemd" else (each for each in SHAPES if each[1] == 1):
            head = build_head(name, shape[3] * networks_for(name)).eval()
            by_rule(head.state_dict())
            for key, value in head.state_dict().items():
                if alpha is not None and key.endswith("alpha"):
                    value.fill_(alpha)
            maps = [m.to(dtype) for m in episode(shape, networks_for(name))]
            for code, logits in {"frn": head, _commit(clones, name): official(clones, name, head, shape)}.items():
                if logits is not None:
                    far = differences(logits, head, *maps)
                    worst[code] = [max(pair) for pair in zip(far, worst.get(code, far), strict=True)]
        shown = "as drawn" if alpha is None else f"{alpha:g}"
        rows += [(name, shown, str(dtype)[6:], code, *(f"{v:.1e}" for v in far)) for code, far in worst.items()]
    torch.set_default_dtype(torch.float32)
    print_table(("head", "alpha", "type", "code", "log probability", "query gradient", "support gradient"), rows)


def _commit(clones: Path, name: str) -> str:
    folder = clones / OFFICIAL.get(name, ("",))[0].rpartition("/")[2]
    words = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(words, check=False, capture_output=True, text=True).stdout.strip()
    return f"authors, {commit or 'unknown commit'}"


if __name__ == "__main__":
    typer.run(main)
