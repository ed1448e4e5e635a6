"""Products computed by other libraries equal those of torch, and have a gradient if needed."""

import pytest
import torch

from frn.ridge.matmul import FEW_THREADS, _prefers_onednn, _small, matmul_nt, matmul_small, transformed
from frn.system.hardware import OPENBLAS_THREADS


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


def test_numpy_multiplies_only_small_matrices_on_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = 2
    monkeypatch.setattr("frn.ridge.matmul._small", lambda: 24)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: "torch")
    one, other, large = torch.ones(5, 2, 3), torch.ones(5, 3, 4), torch.ones(5, 3, 5)
    torch.testing.assert_close(matmul_small(one, other), torch.full((5, 2, 4), 3.0))  # 24 multiplications
    assert matmul_small(one, large) == "torch"
    for a, b in ((one.clone().requires_grad_(), other), (one, other.clone().requires_grad_())):
        assert matmul_small(a, b) == "torch"
        with torch.no_grad():
            assert matmul_small(a, b) != "torch"
    threads = 3
    assert matmul_small(one, other) == "torch"


@pytest.mark.skipif(not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="needs oneDNN")
def test_onednn_multiplies_only_float32_without_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    prefers = True
    monkeypatch.setattr("frn.ridge.matmul._prefers_onednn", lambda: prefers)
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: "torch")
    one, other = torch.ones(2, 3), torch.ones(4, 3)
    torch.testing.assert_close(matmul_nt(one, other), torch.full((2, 4), 3.0))
    assert matmul_nt(one.double(), other.double()) == "torch"
    assert matmul_nt(one.clone().requires_grad_(), other) == "torch"
    prefers = False
    assert matmul_nt(one, other) == "torch"


def test_openblas_on_one_thread_multiplies_larger_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPENBLAS_THREADS, "2")
    by_default = _small.__wrapped__()
    monkeypatch.setenv(OPENBLAS_THREADS, "1")
    assert _small.__wrapped__() > by_default


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
def test_compilers_tracers_and_transforms_are_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def note(maps: torch.Tensor) -> torch.Tensor:
        seen.append(transformed())
        return 2 * maps

    note(torch.ones(2))
    torch.vmap(note)(torch.ones(2))
    torch.jit.trace(note, torch.ones(2), check_trace=False)
    with monkeypatch.context() as patch:
        patch.setattr(torch.compiler, "is_compiling", lambda: True)
        note(torch.ones(2))
    assert seen == [False, True, True, True]
