"""Few-shot heads. Each is one file with one contract: `(support, query) -> logits`.

A new head is a file here, a line in `HEADS`, and a test.
"""

from collections.abc import Callable

from torch import nn

from frn.errors import FrnError
from frn.heads.frn import FRNHead
from frn.heads.proto import ProtoHead

HEADS: dict[str, Callable[[int], nn.Module]] = {
    "frn": lambda d: FRNHead(),
    "proto": lambda d: ProtoHead(pooled=d > 64),
}


def build_head(name: str, d: int) -> nn.Module:
    """Return a new head for maps of d channels.

    Raises:
        FrnError: if there is no head of that name.
    """
    if name not in HEADS:
        raise FrnError(f"unknown method {name!r}; choose one of: {', '.join(HEADS)}")
    return HEADS[name](d)
