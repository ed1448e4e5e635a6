"""Products computed by other libraries equal those of torch, and have a gradient if needed."""

import pytest
import torch

from frn.ridge.matmul import FEW_THREADS, _prefers_onednn, matmul_nt, matmul_small


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [8, 64, 640])
def test_products_equal_those_of_torch(d: int, dtype: torch.dtype) -> None:
    maps = torch.randn(3, 20, d, generator=torch.Generator().manual_seed(0), dtype=dtype)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(matmul_small(maps.mT, maps), maps.mT @ maps, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(matmul_nt(maps[0], maps[1]), maps[0] @ maps[1].mT, rtol=tolerance, atol=tolerance)


def test_inputs_that_require_gradients_get_them() -> None:
    maps = torch.randn(3, 20, 8, requires_grad=True)
    (matmul_small(maps.mT, maps).sum() + matmul_nt(maps[0], maps[1]).sum()).backward()
    ones = torch.ones(8, 8)
    expected = 2 * maps.detach() @ ones
    expected[0] += maps.detach()[1].sum(0)
    expected[1] += maps.detach()[0].sum(0)
    torch.testing.assert_close(maps.grad, expected)
    with torch.no_grad():
        assert not matmul_small(maps.mT, maps).requires_grad


def test_only_a_requested_gradient_needs_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = torch.randn(3, 20, 8)
    monkeypatch.setattr(torch.Tensor, "__matmul__", None)
    if torch.get_num_threads() <= FEW_THREADS:
        matmul_small(maps, maps.mT)
        with torch.no_grad():
            matmul_small(maps.requires_grad_(), maps.mT)
    with pytest.raises(TypeError):
        matmul_small(maps.requires_grad_(), maps.mT)


def test_onednn_is_used_only_if_available_and_not_on_intel(monkeypatch: pytest.MonkeyPatch) -> None:
    prefers = _prefers_onednn.__wrapped__
    monkeypatch.setattr("frn.ridge.matmul.processor", lambda: "AMD EPYC")
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not prefers()
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    assert prefers() == hasattr(torch.ops.mkldnn, "_linear_pointwise")
    monkeypatch.setattr("frn.ridge.matmul.processor", lambda: "Intel(R) Xeon(R)")
    assert not prefers()
