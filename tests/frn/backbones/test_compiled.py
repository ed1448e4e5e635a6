"""The compiled function after a convolution equals separate normalisation, sum, pooling and activation."""

import copy
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.backbones import build_backbone
from frn.backbones.compiled import _finish, _fits, _loop, compile_blocks
from frn.errors import FrnError
from frn.training.loop import StepReport
from frn.training.runs.run import RunSettings
from frn.training.runs.run_options import CXX, RunOptions
from tests.frn.training.tiny import assert_same, quick

needs_compiler = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", CXX)) is None, reason="torch.compile needs a C++ compiler"
)


def plainly(maps: list[Tensor], norms: list[nn.BatchNorm2d], slope: float) -> Tensor:
    x = sum((norm(each) for norm, each in zip(norms, maps, strict=True)), torch.zeros(()))
    return F.leaky_relu(F.max_pool2d(x, 2), slope)


def drawn_norm(channels: int) -> nn.BatchNorm2d:
    """Use factors of both signs, and running statistics that differ greatly from those of a batch."""
    norm = nn.BatchNorm2d(channels)
    nn.init.uniform_(norm.weight, -1.5, 1.5)
    nn.init.normal_(norm.bias)
    assert norm.running_mean is not None
    nn.init.normal_(norm.running_mean)
    return norm


@pytest.mark.nightly
@needs_compiler
def test_compiled_results_gradients_and_statistics_equal_those_of_plain_functions() -> None:
    torch.manual_seed(0)
    maps = [(3 + 2 * torch.randn(9, 40, 7, 5)).to(torch.bfloat16, memory_format=torch.channels_last) for _ in range(2)]
    norms = [drawn_norm(40) for _ in maps]
    along = torch.randn(9, 40, 3, 2).to(torch.bfloat16)
    exact = [x.double().requires_grad_() for x in maps]
    exact_norms = [copy.deepcopy(norm).double() for norm in norms]
    maps = [x.requires_grad_() for x in maps]
    found = _finish(nn.Identity(), 0.1, maps, norms, pool=True)
    found.backward(along)
    expected = plainly(exact, exact_norms, 0.1)
    expected.backward(along.double())
    rounding = 8e-3  # of bf16
    assert found.dtype == torch.bfloat16
    assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found.double(), expected, rtol=rounding, atol=rounding)
    for x, reference in zip(maps, exact, strict=True):
        assert x.grad is not None
        assert reference.grad is not None
        # If two values of a window are equal up to rounding, either may get the gradient.
        apart = (x.grad.double() - reference.grad).abs() > rounding * (1 + reference.grad.abs())
        assert apart.double().mean() < 1e-2
    for norm, exactly in zip(norms, exact_norms, strict=True):
        for (name, each), (_, true) in zip(norm.state_dict().items(), exactly.state_dict().items(), strict=True):
            torch.testing.assert_close(each.double(), true.double(), rtol=1e-5, atol=1e-5, msg=name)
        for weight, true in ((norm.weight, exactly.weight), (norm.bias, exactly.bias)):
            assert weight.grad is not None
            torch.testing.assert_close(weight.grad.double(), true.grad, rtol=1e-3, atol=1e-2)


@pytest.mark.nightly
@needs_compiler
def test_compiled_backbone_trains_to_the_same_result() -> None:
    torch.manual_seed(0)
    plain = build_backbone("resnet12-small", size=42)
    compiled, exact = copy.deepcopy(plain), copy.deepcopy(plain).double()
    compile_blocks(compiled)
    images = torch.randn(6, 3, 42, 42).contiguous(memory_format=torch.channels_last)
    maps = {backbone: backbone.train()(images.to(next(backbone.parameters()))) for backbone in (plain, compiled, exact)}
    along = torch.randn_like(maps[plain])
    for each in maps.values():
        each.backward(along.to(each))

    def gradient(backbone: nn.Module) -> Tensor:
        return torch.cat([each.grad.flatten().double() for each in backbone.parameters() if each.grad is not None])

    distances = [(gradient(backbone) - gradient(exact)).norm() for backbone in (compiled, plain)]
    assert (maps[compiled] - maps[exact]).norm() <= 2 * (maps[plain] - maps[exact]).norm()
    assert 0 < distances[0] <= 2 * distances[1]
    before = {key: value.clone() for key, value in compiled.state_dict().items()}
    with torch.no_grad():
        torch.testing.assert_close(compiled.eval()(images), plain.eval()(images), rtol=1e-3, atol=1e-4)
    assert all(torch.equal(value, before[key]) for key, value in compiled.state_dict().items())


@pytest.mark.nightly
@needs_compiler
def test_one_loop_handles_maps_of_all_sizes() -> None:
    """Compiling again for each size would take seconds."""
    torch._dynamo.reset()
    _loop.cache_clear()
    norm = drawn_norm(24)
    torch._dynamo.utils.counters.clear()
    for size in (12, 10, 7, 5):
        maps = torch.randn(size + 1, 24, size, size).contiguous(memory_format=torch.channels_last).requires_grad_()
        _finish(nn.Identity(), 0.1, [maps], [norm], pool=True).sum().backward()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 5


def test_channels_with_few_values_use_the_plain_functions() -> None:
    norm = nn.BatchNorm2d(8)
    maps = [torch.randn(b, 8, *size, requires_grad=True) for b, size in ((1, (1, 1)), (2, (1, 1)), (4, (4, 4)))]
    assert [_fits([x], [norm]) for x in maps] == [False, False, True]


def test_networks_without_such_blocks_are_refused() -> None:
    with pytest.raises(FrnError, match="--compile does not support Sequential"):
        compile_blocks(nn.Sequential(nn.Conv2d(3, 4, 3)))


@pytest.mark.nightly
@needs_compiler
def test_compiled_run_trains_identically_and_resumes_with_bit_identical_results(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    compiled = RunSettings(compiled=True)
    plain, _ = quick(tmp_path / "plain")
    whole, _ = quick(tmp_path / "whole", settings=compiled)
    losses = [[event.loss for event in events if isinstance(event, StepReport)] for events in (plain, whole)]
    assert losses[0] != losses[1]
    assert losses[0][:3] == pytest.approx(losses[1][:3], rel=1e-3)
    stops = iter([False] * 3 + [True])
    quick(tmp_path / "cut", settings=compiled, stop=lambda: next(stops))
    quick(tmp_path / "cut", settings=compiled, resume=True)
    assert_same(tmp_path / "whole" / "best.safetensors", tmp_path / "cut" / "best.safetensors")


def test_missing_compiler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(FrnError, match="--compile needs a C\\+\\+ compiler, but no-such-compiler was not found"):
        RunOptions(preset="demo", compiled=True).check()


def test_failing_compiler_gives_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> NoReturn:
        raise torch._dynamo.exc.TorchRuntimeError("no room for the cache\nand more")

    monkeypatch.setattr(torch, "compile", lambda *_, **__: failing)
    _loop.cache_clear()
    maps = torch.randn(2, 4, 6, 6, requires_grad=True)
    with pytest.raises(
        FrnError, match=r"^--compile: no room for the cache\. Remove the option, or fix the compiler\.$"
    ):
        _finish(nn.Identity(), 0.1, [maps], [drawn_norm(4)], pool=True)
    _loop.cache_clear()
