"""Probabilities are softer for few shots; nothing else changes."""

import pytest

from frn.ridge.parameters import temperature


@pytest.mark.parametrize(("shots", "factor"), [(1, 0.2**0.5), (5, 1), (20, 2)])
def test_gamma_grows_with_the_square_root_of_the_shots(shots: int, factor: float) -> None:
    assert temperature(7.0, shots) == pytest.approx(7.0 * factor)
