"""Cross-entropy of an episode, and the auxiliary loss."""

import pytest
import torch
import torch.nn.functional as F

from frn.training.losses import AUX_WEIGHT, auxiliary_loss, episode_loss


@pytest.mark.parametrize(("shot", "r", "d"), [(1, 4, 16), (5, 9, 8)])
def test_paper_mode_is_eq_11_over_ordered_pairs_of_row_normalised_pools(shot: int, r: int, d: int) -> None:
    support = torch.randn(4, shot, r, d).double()
    pool = F.normalize(support.flatten(1, 2), dim=-1)
    expected = sum((pool[i] @ pool[j].mT).square().sum() for i in range(4) for j in range(4) if i != j)
    torch.testing.assert_close(auxiliary_loss(support, "paper"), torch.as_tensor(expected))


@pytest.mark.parametrize(("shot", "r", "d"), [(1, 4, 16), (5, 9, 8)])
def test_reference_mode_divides_by_a_single_norm_and_counts_each_pair_once(shot: int, r: int, d: int) -> None:
    support = torch.randn(4, shot, r, d).double()
    pool = support.flatten(1, 2) / support.norm()
    expected = sum((pool[i] @ pool[j].mT).square().sum() for i in range(4) for j in range(i))
    torch.testing.assert_close(auxiliary_loss(support, "reference"), torch.as_tensor(expected))


def test_off_mode_keeps_only_the_cross_entropy() -> None:
    logits, support = torch.randn(6, 3), torch.randn(3, 1, 4, 8)
    target = torch.tensor([0, 0, 1, 1, 2, 2])
    torch.testing.assert_close(episode_loss(logits, support, 2, "off"), F.cross_entropy(logits, target))
    with_aux = F.cross_entropy(logits, target) + AUX_WEIGHT * auxiliary_loss(support)
    torch.testing.assert_close(episode_loss(logits, support, 2), with_aux)
