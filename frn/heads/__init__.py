"""Few-shot heads. Each is one file with one contract: `(support, query) -> logits`.

A new head is a file here, a line in `HEADS`, its name in the commands' `MethodName`, and a test.
"""

from collections.abc import Callable

from frn.errors import FrnError
from frn.heads.bifrn import BiFRNHead
from frn.heads.ctx import CTXHead
from frn.heads.deepemd import DeepEMDHead
from frn.heads.frn import FRNHead
from frn.heads.head import Head
from frn.heads.lccrn import LCCRNHead
from frn.heads.mcl import MCLHead
from frn.heads.srm import SRMHead
from frn.heads.tdm import TDMFRNHead, TDMProtoHead
from frn.heads.vectors.cosine import CosineHead
from frn.heads.vectors.covariance import CovarianceHead
from frn.heads.vectors.deepbdc import DeepBDCHead
from frn.heads.vectors.dsn import DSNHead
from frn.heads.vectors.proto import ProtoHead
from frn.heads.vectors.ridge import RidgeHead
from frn.heads.vectors.simpleshot import SimpleShotHead

SMALL = 64
"""Up to this many channels the authors compare whole flattened maps, beyond it average-pooled ones."""

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
    "deepbdc": lambda d: DeepBDCHead(),
    "frn-tdm": TDMFRNHead,
    "proto-tdm": lambda d: TDMProtoHead(d, pooled=d > SMALL),
    # The authors' rate would move a location of Conv-4, whose features are short, by several times its length.
    "deepemd": lambda d: DeepEMDHead(sfc_rate=1.0 if d <= SMALL else 100.0),
}


def build_head(name: str, d: int) -> Head:
    """Return a new head for maps of d channels. FrnError if there is no head of that name."""
    if name not in HEADS:
        raise FrnError(f"unknown method {name!r}; choose one of: {', '.join(HEADS)}")
    return HEADS[name](d)


def networks_for(name: str) -> int:
    """How many networks the maps of a head come from."""
    return getattr(HEADS.get(name), "networks", 1)
