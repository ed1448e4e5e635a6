"""The class side of the closed form, compared with plain inverses in float64."""

import pytest
import torch
from torch import Tensor

from frn.ridge.reconstruction import SingularError, residual_operator, ridge_factor, squared_operator, whiten

LAM, RHO = torch.tensor(0.7, dtype=torch.float64), torch.tensor(1.4, dtype=torch.float64)


def pools(p: int, d: int, way: int = 3) -> Tensor:
    return torch.randn(way, p, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_first_singular_class_is_named_with_its_lambda() -> None:
    pool = pools(2, 6, way=4)
    pool[1, 0, 0] = pool[3, 0, 0] = torch.nan
    with pytest.raises(SingularError) as caught:
        whiten(pool, LAM)
    assert str(caught.value) == (
        "the ridge system of class 1 (of 4; 2 affected) is not positive definite with lambda = 0.7: features must be "
        "finite and lambda positive"
    )
    negative = torch.diag(torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64))[None]
    with pytest.raises(SingularError):
        residual_operator(negative, LAM, RHO)
    with pytest.raises(SingularError):
        ridge_factor(pool, LAM)


def test_singular_classes_become_nan_under_a_transform() -> None:
    pool = pools(2, 6)
    pool[1, 0, 0] = torch.nan
    found = torch.vmap(lambda each: squared_operator(each[None], LAM, RHO)[0])(pool)
    assert found.isnan().flatten(1).all(1).tolist() == [False, True, False]
    torch.testing.assert_close(found[[0, 2]], squared_operator(pool[[0, 2]], LAM, RHO))
