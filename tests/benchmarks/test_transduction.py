"""Compare the transductive methods with the first query's shares that their authors' codes give.

The codes are oveilleux/Realistic_Transductive_Few_Shot, SegoleneMartin/PADDLE and SegoleneMartin/transductive-CLIP.
"""

from types import ModuleType

import numpy as np
import pytest
import torch
from transduction import Floats, alpha_tim, bd_cspn, em_dirichlet, laplacian_shot, paddle, unit

THEIRS = {
    (paddle, 1): [0.252734986568, 0.200487826389, 0.200869954002, 0.197956185033, 0.147951048009],
    (paddle, 5): [4.735893e-06, 0.100397179763, 1.558542e-06, 0.899595505723, 1.02008e-06],
    (alpha_tim, 1): [2.80212e-07, 6.014e-09, 2.5546816e-05, 6.79809e-07, 0.999973487149],
    (alpha_tim, 5): [0.999961220309, 7.48352e-07, 3.6278357e-05, 1.295001e-06, 4.57981e-07],
}


def draw(shot: int) -> tuple[Floats, Floats, np.ndarray]:
    """Return supports (5, shot, 40), queries (75, 40) and labels (75,) of an episode."""
    generator = np.random.default_rng(shot)
    centres = generator.standard_normal((5, 40))
    supports = unit(centres[:, None] + 0.9 * generator.standard_normal((5, shot, 40)))
    labels = generator.integers(0, 5, 75)
    return supports, unit(centres[labels] + 0.9 * generator.standard_normal((75, 40))), labels


@pytest.mark.parametrize(("method", "shot"), THEIRS)
def test_shares_are_those_of_the_authors_code(method: ModuleType, shot: int) -> None:
    supports, queries, _ = draw(shot)
    np.testing.assert_allclose(method.label(supports, queries)[0], THEIRS[method, shot], atol=1e-10)


def test_dirichlet_distributions_are_fitted_as_in_the_authors_code() -> None:
    generator = np.random.default_rng(1)
    supports, queries = (torch.from_numpy(generator.dirichlet(np.ones(5), size)) for size in (5, 75))
    shares = em_dirichlet.fit((supports + 1e-15).log()[:, None], (queries + 1e-15).log(), queries)
    theirs = [0.001928328491, 0.000445385096, 3.2372e-08, 0.996702024912, 0.00092422913]
    np.testing.assert_allclose(shares[0], theirs, atol=1e-10)


@pytest.mark.parametrize("method", [alpha_tim, bd_cspn, em_dirichlet, laplacian_shot])
@pytest.mark.parametrize("shot", [1, 5])
def test_methods_label_clear_queries(method: ModuleType, shot: int) -> None:
    supports, queries, labels = draw(shot)
    shares = method.label(supports, queries)
    np.testing.assert_allclose(shares.sum(1), 1)
    assert (shares.argmax(1) == labels).mean() > 0.97
