"""Maps for which a closed form in float32 is hard to compute."""

import torch
from torch import Tensor

FAMILIES = ("gauss", "low rank", "duplicated", "nearly duplicated", "zero", "times 30")


def family(name: str, way: int, shot: int, r: int, d: int) -> tuple[Tensor, Tensor]:
    """Make float32 features (n, d) and pools (way, p, d), non-negative and correlated as after a ReLU."""
    generator = torch.Generator().manual_seed(d + shot)

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator)

    base = draw(8, d)

    def correlated(*size: int) -> Tensor:
        return (draw(*size, 8) @ base + 0.5 * draw(*size, d)).relu()

    query, pool = correlated(2 * r), correlated(way, shot * r)
    if name == "low rank":
        pool = draw(way, shot * r, 3) @ draw(way, 3, d)
    elif name == "duplicated":
        pool = pool[:, :1].expand(-1, shot * r, -1).contiguous()
    elif name == "nearly duplicated":  # the worst case, in which a float32 factor is wrong by 1e-2
        query, pool = 30 * query, 30 * pool[:, :1] * (1 + 1e-3 * draw(way, shot * r, d))
    elif name == "zero":
        pool = torch.zeros_like(pool)
    elif name == "times 30":
        query, pool = 30 * query, 30 * pool
    return query, pool
