"""Learned parameters: their limits, lambda, rho, the temperature and probabilities."""

import math

import numpy as np
import pytest

from frn.errors import FrnError
from frn.ridge.parameters import HeadParameters, probabilities, rescaled_lambda, temperature


@pytest.mark.parametrize(("shots", "factor"), [(1, 0.2**0.5), (5, 1), (20, 2)])
def test_gamma_grows_with_the_square_root_of_the_shots(shots: int, factor: float) -> None:
    assert temperature(7.0, shots) == pytest.approx(7.0 * factor)


def test_lambda_is_rescaled_and_has_the_floor_of_the_authors_code() -> None:
    assert rescaled_lambda(3.0, 50, 20) == pytest.approx(7.5 + 1e-6, rel=1e-12)
    head = HeadParameters(math.log(3), math.log(1.5))
    assert head.lam(50, 20) == pytest.approx(7.5 + 1e-6, rel=1e-12)
    assert HeadParameters(-50.0).lam(1, 1) == pytest.approx(1e-6, rel=1e-12)
    assert head.rho() == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("name", "limit"), [("alpha", 50.0), ("alpha", -50.0), ("beta", 50.0), ("beta", -50.0), ("gamma", 1e5)]
)
def test_parameters_are_accepted_up_to_their_limit(name: str, limit: float) -> None:
    learned = {"alpha": 0.0, "beta": 0.0, "gamma": 1.0}
    assert getattr(HeadParameters.from_metadata(learned | {name: limit}), name) == limit
    for beyond in (np.nextafter(limit, 2 * limit), math.nan, math.inf):
        with pytest.raises(FrnError, match=r"^alpha, beta and gamma are"):
            HeadParameters.from_metadata(learned | {name: beyond})


@pytest.mark.parametrize("gamma", [0.0, -1.0])
def test_gamma_must_be_positive(gamma: float) -> None:
    with pytest.raises(FrnError, match=r"^alpha, beta and gamma are"):
        HeadParameters.from_metadata({"alpha": 0.0, "beta": 0.0, "gamma": gamma})


@pytest.mark.parametrize("names", [("alpha", "beta"), ("alpha", "beta", "gamma", "delta"), ()])
def test_all_three_parameters_are_needed(names: tuple[str, ...]) -> None:
    with pytest.raises(FrnError) as caught:
        HeadParameters.from_metadata(dict.fromkeys(names, 0.0))
    assert str(caught.value) == f"an FRN head has alpha, beta and gamma, not {', '.join(names)}"


def test_metadata_is_read_back_and_sorted_by_name() -> None:
    assert HeadParameters(0.5, -1.0, 2.0).as_metadata() == '{"alpha": 0.5, "beta": -1.0, "gamma": 2.0}'


def test_probabilities_are_the_softmax_of_errors_times_gamma() -> None:
    errors = np.array([[1.0, 2.0, 4.0], [5.0, 5.0, 5.0], [0.0, 1e6, 2e6]], np.float32)
    shares = probabilities(errors, 0.5)
    weights = np.exp([-0.5, -1, -2])
    np.testing.assert_allclose(shares[0], weights / weights.sum())
    np.testing.assert_allclose(shares[1:], np.array([[1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]]))
    assert shares.dtype == np.float64
