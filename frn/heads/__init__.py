"""Few-shot heads. Each is one file with the same interface: `(support, query) -> logits`.

A new head is a file here, a line in `HEADS`, and a test. Other packages register heads through entry points, in the
`pyproject.toml` of such a package:

    [project.entry-points."frn.heads"]
    my-head = "my_package:MyHead"

`MyHead(d)` returns a `Head` for maps of d channels.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from frn.errors import FrnError
from frn.heads.bifrn import BiFRNHead
from frn.heads.ctx import CTXHead
from frn.heads.deepemd import DeepEMDHead
from frn.heads.frn import FRNHead
from frn.heads.head import Head as Head
from frn.heads.lccrn import LCCRNHead
from frn.heads.mcl import FINE_GRAINED, MCLHead
from frn.heads.srm import SRMHead
from frn.heads.tdm import TDMFRNHead, TDMProtoHead
from frn.heads.vectors.classical import CLASSICAL, ClassicalHead
from frn.heads.vectors.deepbdc import DeepBDCHead
from frn.heads.vectors.prototypes import CosineHead, CovarianceHead, ProtoHead, SimpleShotHead
from frn.heads.vectors.regression import DSNHead, RidgeHead

GROUP = "frn.heads"
SMALL = 64
"""Maximum channels for which the authors compare whole flattened maps; wider maps are average-pooled."""

HEADS: dict[str, Callable[[int], Head]] = {
    "frn": lambda d: FRNHead(),
    "proto": lambda d: ProtoHead(pooled=d > SMALL),
    "dsn": lambda d: DSNHead(pooled=d > SMALL),
    "ctx": CTXHead,
    "covariance": lambda d: CovarianceHead(),
    "simpleshot": SimpleShotHead,
    "cosine": lambda d: CosineHead(),
    "ridge": lambda d: RidgeHead(pooled=d > SMALL),
    "bifrn": BiFRNHead,
    "srm": lambda d: SRMHead(),
    "lccrn": LCCRNHead,
    "mcl": lambda d: MCLHead(),
    "mcl-fine": lambda d: MCLHead(FINE_GRAINED),
    "deepbdc": DeepBDCHead,
    "frn-tdm": TDMFRNHead,
    "proto-tdm": lambda d: TDMProtoHead(d, pooled=d > SMALL),
    # The authors' rate would move a location of Conv-4, whose features are short, by several times its length.
    "deepemd": lambda d: DeepEMDHead(sfc_rate=1.0 if d <= SMALL else 100.0),
    **{name: lambda d, fit=fit: ClassicalHead(fit) for name, fit in CLASSICAL.items()},  # type: ignore[misc]
}


def head_names() -> list[str]:
    """Return the names of all heads, built in or from other packages."""
    return [*HEADS, *(entry.name for entry in entry_points(group=GROUP))]


def build_head(name: str, d: int) -> Head:
    """Return a new head for maps of d channels.

    Raises FrnError if no head has that name, or another package's head cannot be created.
    """
    with _named(name):
        head = _factory(name)(d)
        if not isinstance(head, Head):
            raise TypeError(f"it is a {type(head).__name__}, not a frn.heads.Head")
        if head.networks != networks_for(name):
            raise TypeError("it has its own `networks`: register the class itself, not a function")
        return head


def build_untrained_head(name: str, d: int) -> Head:
    """Return a head that works without training. Raises FrnError if it has layers, or as `build_head` does."""
    head = build_head(name, d)
    if layers := ", ".join(layer for layer, parameter in head.named_parameters() if parameter.dim()):
        raise FrnError(f"method {name!r} has layers that need training ({layers}): `frn train --method {name}` does it")
    return head


def networks_for(name: str) -> int:
    """Return how many networks compute the maps of a head. Raises as `build_head` does."""
    with _named(name):
        return getattr(_factory(name), "networks", Head.networks)


def has_auxiliary_loss(name: str) -> bool:
    """Return whether a method is trained with the auxiliary loss by default. Raises as `build_head` does."""
    return build_head(name, networks_for(name) * SMALL).has_auxiliary_loss


def warm_up_of(name: str) -> int:
    """Return the default number of warm-up steps of a method. Raises as `build_head` does."""
    return build_head(name, networks_for(name) * SMALL).warm_up


def require_trainable(name: str) -> None:
    """Raise FrnError if a method is fitted to each episode, which leaves nothing to train."""
    if name in CLASSICAL:
        raise FrnError(f"method {name!r} is fitted to each episode. Use it in `frn eval --method`; it is not trained.")


def _factory(name: str) -> Callable[[Any], object]:
    if name in HEADS:
        return HEADS[name]
    plugins = entry_points(group=GROUP, name=name)
    if not plugins:
        raise FrnError(f"unknown method {name!r}; choose one of: {', '.join(head_names())}")
    return next(iter(plugins)).load()


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Turn any exception from another package into a one-line error."""
    try:
        yield
    except FrnError:
        raise
    except Exception as error:
        raise FrnError(f"method {name!r}: its head cannot be created ({type(error).__name__}: {error})") from error
