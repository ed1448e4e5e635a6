"""Compare the heads' logits and gradients with the official code of their authors, and both with a float64 SVD.

    git clone https://github.com/Tsingularity/FRN
    python assets/benchmarks/faithful.py --frn FRN

`--tdm` takes a clone of leesb7426/CVPR2022-Task-Discrepancy-Maximization-for-Fine-grained-Few-Shot-Classification, and
`--bifrn` one of PRIS-CV/Bi-FRN. The folders' code is run. All other heads are compared with the truth only.

The truth is the head in float64 with every system solved by singular values, without an inverse; the derivatives are
written out. Shape letters are those of `frn.ridge.reconstruction`.
"""

import copy
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any
from unittest.mock import patch

import torch
import typer
from torch import Tensor

from frn.cli.shell.console import print_table, user_errors
from frn.errors import FrnError
from frn.heads import HEADS, build_head, networks_for
from frn.heads.bifrn import BiFRNHead
from frn.heads.frn import FRNHead
from frn.heads.head import Head
from frn.heads.tdm import TDMFRNHead
from frn.heads.vectors.classical import CLASSICAL

Errors = Callable[[Tensor, Tensor], Tensor]
LAYERS = {"within": "prt_self", "between": "prt_other", "query": "qry_self", "wide": "linear1", "norm": "bn1"}
LAYERS |= {"narrow": "linear2"}
"""Names of TDM's layers in its authors' code."""
BIFRN = {"before_attention": "pre_norm", "attention": "self_attn.qkv", "attended": "self_attn.proj"}
BIFRN |= {"after_attention": "norm1", "inner": "linear1", "outer": "linear2"}
"""Names of the layers of Bi-FRN's self-reconstruction in its authors' code."""


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


@contextmanager
def modules_of(folder: Path) -> Iterator[Callable[[str], Any]]:
    """Import modules named `models.…` from a folder, and forget them afterwards."""
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module
    except ImportError as error:
        raise FrnError(
            f"{folder}: is not the official code ({error}). Clone the repository named by --help."
        ) from error
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == "models"]:
            del sys.modules[name]


def official(folder: Path, head: Head) -> Errors:
    """Return the logits of the official code in a folder, with the parameters of our head."""
    if isinstance(head, BiFRNHead):
        return official_bifrn(folder, head)
    assert isinstance(head, FRNHead | TDMFRNHead)  # `main` has no other
    args = SimpleNamespace(TDM=True, resnet=False, model="FRN", noise=False)
    with modules_of(folder) as load:
        model = load("models.FRN").FRN
        if not isinstance(head, TDMFRNHead):
            frn, owner = head, SimpleNamespace()
        else:
            frn, weights = head.frn, load("models.TDM").TDM(args).to(head.frn.alpha.dtype).eval()
            renamed = {
                ".".join(LAYERS.get(part, part) for part in k.split(".")): v
                for k, v in head.weights.state_dict().items()
            }
            weights.load_state_dict(renamed)
            owner = SimpleNamespace(args=args, TDM=weights)

    def logits(support: Tensor, query: Tensor) -> Tensor:
        way, _, r, d = support.shape
        maps = (query[None], support) if isinstance(head, TDMFRNHead) else (query.reshape(-1, d), support.flatten(1, 2))
        errors: Tensor = model.get_recon_dist(owner, *maps, frn.alpha, frn.beta)
        return -frn.gamma * errors.view(len(query), r, way).mean(1)

    return logits


def official_bifrn(folder: Path, head: BiFRNHead) -> Errors:
    """Return the logits of the official code of Bi-FRN in a folder, with the parameters of our head."""
    dtype, d = head.gamma.dtype, head.projections.in_features
    with modules_of(folder) as load:
        itself = load("models.backbones.FSRM").FSRM(num_heads=1, embedding_dim=d, attention_dropout=0.0)
        mutual = load("models.backbones.FMRM").FMRM(hidden_size=d, inner_size=d)
    state = {}
    for name, value in head.itself.state_dict().items():
        layer, _, kind = name.rpartition(".")
        state[f"transformer.{'norm' if layer == 'last' else f'blocks.0.{BIFRN[layer]}'}.{kind}"] = value
    itself.load_state_dict(state, strict=False)  # without the positions, which are fixed
    mutual.load_state_dict({"to_qkv.0.weight": head.projections.weight})
    itself, mutual = itself.to(dtype).eval(), mutual.to(dtype).eval()

    def logits(support: Tensor, query: Tensor) -> Tensor:
        way, shot, r, _ = support.shape
        maps = torch.cat([support.flatten(0, 1), query]).mT.unflatten(2, (5, 5))
        maps = itself(maps.contiguous()).mT.unflatten(2, (5, 5))
        pool = maps[: way * shot].unflatten(0, (way, shot)).permute(0, 2, 1, 3, 4).contiguous()
        back, forth = mutual(pool, maps[way * shot :])
        errors: Tensor = head.gamma * (head.weight_back * back + head.weight_forth * forth) / (r * d)
        return errors

    return logits


def differences(compared: Errors, head: Head, support: Tensor, query: Tensor) -> list[float]:
    """Return the relative differences from the truth of logits, and of gradients for query and support."""
    weight = torch.randn(len(query), len(support), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    exact = copy.deepcopy(head).double()
    results = []
    for logits, dtype in ((compared, support.dtype), (lambda s, q: true_logits(exact, s, q), torch.float64)):
        maps = [m.to(dtype, copy=True).requires_grad_() for m in (support, query)]
        values = logits(*maps)
        of_support, of_query = torch.autograd.grad((values * weight.to(dtype)).sum(), maps)
        results.append([m.detach().double() for m in (values, of_query, of_support)])
    return [float((ours - truth).norm() / truth.norm()) for ours, truth in zip(*results, strict=True)]


def episode(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return a 5-way 1-shot episode of random maps of Conv-4 (r = 25, d = 64), half of whose values are zero."""
    generator = torch.Generator().manual_seed(0)
    draw = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((5, 1, 25, 64), (40, 25, 64))]
    return draw[0].relu().to(dtype), draw[1].relu().to(dtype)


@user_errors()
def main(
    frn: Annotated[Path | None, typer.Option(help="Clone of Tsingularity/FRN.")] = None,
    tdm: Annotated[Path | None, typer.Option(help="Clone of the official code of TDM.")] = None,
    bifrn: Annotated[Path | None, typer.Option(help="Clone of PRIS-CV/Bi-FRN.")] = None,
) -> None:
    """Print a table of relative differences from the truth, ours and theirs."""
    folders = {"frn": frn, "frn-tdm": tdm, "bifrn": bifrn}
    rows = []
    for name in (*folders, *sorted(HEADS.keys() - folders.keys() - CLASSICAL.keys() - {"deepemd"})):
        torch.manual_seed(0)
        head, folder = build_head(name, 64 * networks_for(name)).eval(), folders.get(name)
        for alpha in (0.0, -9.0) if name in ("frn", "frn-tdm") else (0.0,):
            for part in (head, getattr(head, "frn", None)):
                if isinstance(part, FRNHead):
                    part.alpha.data.fill_(alpha)
                    part.beta.data.fill_(0.1)
            for dtype in (torch.float64, torch.float32):
                typed = copy.deepcopy(head).to(dtype)
                codes: dict[str, Errors] = {"frn": typed}
                if folder is not None:
                    words = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
                    commit = subprocess.run(words, check=False, capture_output=True, text=True).stdout.strip()
                    codes[f"authors, {commit or 'unknown commit'}"] = official(folder.absolute(), typed)
                torch.set_default_dtype(dtype)  # the authors make lambda I in the default type
                for code, logits in codes.items():
                    maps = [torch.cat([m] * networks_for(name), -1) for m in episode(dtype)]
                    shown = (f"{value:.1e}" for value in differences(logits, head, maps[0], maps[1]))
                    rows.append((name, f"{alpha:g}", str(dtype)[6:], code, *shown))
                torch.set_default_dtype(torch.float32)
    print_table(("head", "alpha", "type", "code", "logits", "query gradient", "support gradient"), rows)


if __name__ == "__main__":
    typer.run(main)
