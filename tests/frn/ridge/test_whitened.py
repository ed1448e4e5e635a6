"""Errors from the whitened pool equal the distance to the reconstruction."""

import pytest
import torch

from frn.ridge.whitened import in_blocks, whitened_error


@pytest.mark.parametrize("rho", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("block", [3, 1024])
def test_error_is_the_distance_to_the_reconstruction(monkeypatch: pytest.MonkeyPatch, rho: float, block: int) -> None:
    monkeypatch.setattr("frn.ridge.whitened.CACHED", block)
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(7, 12, generator=generator, dtype=torch.float64)
    pool = torch.randn(3, 5, 12, generator=generator, dtype=torch.float64)
    lam = torch.tensor(0.3, dtype=torch.float64)
    system = pool @ pool.mT + lam * torch.eye(5, dtype=pool.dtype)
    rebuilt = rho * query @ pool.mT @ torch.linalg.inv(system) @ pool  # Eq. 8
    expected = (rebuilt - query).square().sum(-1)
    found = whitened_error(query, pool, lam, torch.tensor(rho, dtype=torch.float64))
    torch.testing.assert_close(found, expected)


def test_queries_are_split_only_outside_transforms() -> None:
    query = torch.zeros(2049, 1)
    assert [len(block) for block in in_blocks(query)] == [1024, 1024, 1]
    counts: list[int] = []

    def count(maps: torch.Tensor) -> torch.Tensor:
        counts.append(len(in_blocks(maps)))
        return maps

    torch.vmap(count)(query[None])
    assert counts == [1]
