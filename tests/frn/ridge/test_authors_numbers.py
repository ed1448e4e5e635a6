"""The head in torch, numpy and ONNX, compared with numbers from the authors' code (`tests/golden`)."""

import math
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from frn_export.graphs.head import head_graph
from numpy.typing import NDArray
from torch import Tensor

from frn.heads.frn import FRNHead
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import LAMBDA_FLOOR, HeadParameters
from frn.ridge.reconstruction import class_error, location_error, reconstruct
from frn.training.losses import AUX_WEIGHT, auxiliary_loss

GOLDEN = Path(__file__).parents[2] / "golden"

Arrays = dict[str, NDArray[np.float64]]


def recorded(name: str) -> Arrays:
    with np.load(GOLDEN / f"{name}.npz") as arrays:
        return {key: arrays[key] for key in arrays.files}


def repeated(pool: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """Make pools with more rows but the same S^T S. Eq. 10 depends only on S^T S, so the recorded errors apply."""
    return np.tile(pool, (1, times, 1)) / math.sqrt(times)


@pytest.mark.parametrize("times", [1, 3])  # 8 and 24 pool rows of 16 channels: Eq. 8 and Eq. 10
def test_errors_equal_those_of_the_authors_to_1e_10(times: int) -> None:
    arrays = recorded("head")
    alpha, beta = arrays["alpha_beta"]
    # The recording stores lambda in float32, whatever the precision of the other values.
    lam, rho = float(np.float32(8 / 16 * math.exp(alpha) + LAMBDA_FLOOR)), math.exp(beta)
    query = torch.from_numpy(arrays["query"])
    pool = torch.from_numpy(repeated(arrays["support"], times))

    def by_query(errors: Tensor) -> NDArray[np.float64]:
        return errors.unflatten(1, query.shape[:2]).permute(1, 2, 0).numpy()  # queries, r, way

    locations = query.flatten(0, 1)
    distance = (reconstruct(locations, pool, lam, rho) - locations).square().sum(-1)
    for errors in (location_error(locations, pool, lam, rho), distance):
        np.testing.assert_allclose(by_query(errors), arrays["location_error"], rtol=0, atol=1e-10)
    np.testing.assert_allclose(class_error(query, pool, lam, rho), arrays["class_error"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("times", [1, 3])
def test_enrolled_classes_and_the_exported_head_match_the_authors_numbers_in_float32(times: int) -> None:
    arrays = recorded("head")
    alpha, beta = arrays["alpha_beta"]
    head = HeadParameters(float(alpha) - math.log(times), float(beta), gamma=1.0)  # lambda grows with the rows
    query, pool = arrays["query"], repeated(arrays["support"], times)
    maps = pool.reshape(len(pool), -1, *query.shape[1:])  # way, shot, r, d
    enrolled = ClassScorer([enroll(support, head) for support in maps]).class_error(query)
    session = onnxruntime.InferenceSession(head_graph(head).SerializeToString(), providers=["CPUExecutionProvider"])
    floats = {"support": maps.astype(np.float32), "query": query.astype(np.float32)}
    (exported,) = session.run(["class_error"], {**floats, "shots": np.full(len(maps), maps.shape[1])})
    unit = np.square(query).sum(-1).mean() * max(1.0, (head.rho() - 1) ** 2)
    for errors in (enrolled, exported):
        np.testing.assert_allclose(errors, arrays["class_error"], rtol=0, atol=1e-6 * unit)


def test_episode_equals_that_of_the_authors() -> None:
    arrays = {key: torch.from_numpy(array) for key, array in recorded("episode").items()}
    head = FRNHead()
    (alpha, beta), (gamma,) = arrays["alpha_beta"].tolist(), arrays["gamma"].tolist()
    with torch.no_grad():
        for parameter, value in zip((head.alpha, head.beta, head.gamma), (alpha, beta, gamma), strict=True):
            parameter.fill_(value)
        log_probability = head(arrays["support"], arrays["query"]).log_softmax(-1)
    torch.testing.assert_close(log_probability, arrays["log_probability"], rtol=1e-5, atol=0)
    aux_loss = AUX_WEIGHT * auxiliary_loss(arrays["support"], "reference")
    torch.testing.assert_close(aux_loss, arrays["aux_loss"], rtol=1e-5, atol=0)
