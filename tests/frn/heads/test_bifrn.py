"""Bi-FRN beyond its logits, which `test_official.py` compares with the authors' code."""

import torch

from frn.heads.bifrn import BiFRNHead, positions

R, D = 4, 6


def test_positions_do_not_depend_on_the_size_of_the_map() -> None:
    maps = torch.zeros(1, dtype=torch.float64)
    torch.testing.assert_close(positions(25, 64, like=maps)[:9], positions(9, 64, like=maps))


def test_attention_dropout_applies_only_in_training() -> None:
    maps = torch.randn(2, 1, R, D, generator=torch.Generator().manual_seed(0))
    head = BiFRNHead(D)
    with torch.no_grad():
        assert not torch.equal(head(maps, maps[:, 0]), head(maps, maps[:, 0]))
        head.eval()
        assert torch.equal(head(maps, maps[:, 0]), head(maps, maps[:, 0]))
