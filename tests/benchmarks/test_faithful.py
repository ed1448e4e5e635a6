"""Logits and gradients of all heads, compared with a float64 SVD; recorded arrays, recomputed by official code."""

import shutil
from pathlib import Path

import pytest
import torch
from faithful import by_rule, differences, episode, project, solve

from frn.heads import HEADS, build_head, networks_for
from frn.heads.vectors.classical import CLASSICAL
from tests.benchmarks.scripts import invoke, output

OTHERS = {"deepemd": "linear programs", **dict.fromkeys(CLASSICAL, "is fitted to each episode, without a gradient")}
ALLOWED = {torch.float64: 1e-13, torch.float32: 3e-6}
"""Largest relative difference after the softmax; DeepBDC's square roots lose a little more in float32."""


@pytest.mark.parametrize("p", [3, 8])
def test_the_derivatives_of_the_truth_are_written_out_correctly(p: int) -> None:
    query, pool = (torch.randn(*shape, 5, dtype=torch.float64, requires_grad=True) for shape in ((4,), (2, p)))
    assert torch.autograd.gradcheck(lambda q, s: project(q, s, 0.3), (query, pool))
    system = torch.eye(5, dtype=torch.float64) * 3 + torch.randn(2, 5, 5, dtype=torch.float64)
    assert torch.autograd.gradcheck(solve, (system.requires_grad_(), pool.mT))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", sorted(HEADS.keys() - OTHERS.keys()))
def test_logits_and_gradients_are_those_of_the_svd(name: str, dtype: torch.dtype) -> None:
    head = build_head(name, 64 * networks_for(name)).eval()
    by_rule(head.state_dict())
    maps = [m.to(dtype) for m in episode((5, 1, 10, 64), networks_for(name))]
    for alpha in (0.0, -9.0):  # at -9, the authors' inverse loses the gradient of the supports
        for parameter, values in head.named_parameters():
            if parameter.endswith("alpha"):
                values.data.fill_(alpha)
        allowed = ALLOWED[dtype] * (2 if name == "deepbdc" else 1)
        assert max(differences(head.to(dtype), head, *maps)) < allowed


CODE = """
class FRN:
    def get_recon_dist(self, query, support, alpha, beta):
        gram = support.mT @ support
        lam = (support.shape[1] / support.shape[2] * alpha.exp() + 1e-6).float()
        inverse = (gram + lam * query.new_ones(query.shape[1]).diag()).inverse()
        return FACTOR * (query @ inverse @ gram * beta.exp() - query).square().sum(2).T
"""


def test_recorded_arrays_are_recomputed_by_the_code_in_a_clone(tmp_path: Path) -> None:
    models, golden = tmp_path / "clones" / "FRN" / "models", tmp_path / "golden"
    models.mkdir(parents=True)
    golden.mkdir()
    shutil.copy(Path(__file__).parents[1] / "golden" / "head.npz", golden)
    words = (models.parents[1], "--golden", golden)

    def largest(*more: str) -> float:
        lines = output("faithful", *words, *more).splitlines()[1:]
        assert {line.split()[1] for line in lines} == {"location_error", "class_error"}
        return max(float(line.split()[2]) for line in lines)

    (models / "FRN.py").write_text(f"FACTOR = 1\n{CODE}")
    assert largest() < 1e-12
    (models / "FRN.py").write_text(f"FACTOR = 20\n{CODE}")
    assert largest("--write") == 0.95
    assert largest() == 0
    (models / "FRN.py").unlink()
    assert "FRN: is not the official code" in invoke("faithful", *words).stderr
