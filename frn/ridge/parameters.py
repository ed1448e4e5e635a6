"""What the FRN head learns (Eq. 5-9): alpha, beta and gamma, and how lambda, rho and probabilities follow from them.

The torch head, the numpy enrolment and the ONNX graph all take them from here. Free of torch.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError

MAX_PARAMETER = {"alpha": 50.0, "beta": 50.0, "gamma": 1e5}
"""Size of what is believed to be learned: beyond, exponentials are not a number that classes can be enrolled with."""
LAMBDA_FLOOR = 1e-6
"""Added to lambda by the authors' released code, not by the paper; kept so that published weights give their logits."""

Scalar = TypeVar("Scalar")


def rescaled_lambda(exp_alpha: Scalar, p: int, d: int) -> Scalar:
    """Lambda of Eq. 7 for p pool rows and d channels: p / d * exp(alpha), of a float or a tensor."""
    return p / d * exp_alpha + LAMBDA_FLOOR  # type: ignore[operator, return-value]


@dataclass(frozen=True, slots=True)
class HeadParameters:
    """The three learned numbers; the defaults are what training starts from."""

    alpha: float = 0.0
    beta: float = 0.0
    gamma: float = 1.0
    """Temperature of the softmax (Eq. 9)."""

    def lam(self, p: int, d: int) -> float:
        """Lambda of Eq. 7 for p pool rows and d channels."""
        return rescaled_lambda(math.exp(self.alpha), p, d)

    def rho(self) -> float:
        """Rho of Eq. 7."""
        return math.exp(self.beta)

    @classmethod
    def of(cls, head: Any) -> "HeadParameters":
        """The values of a torch module with scalars alpha, beta and gamma."""
        return cls(head.alpha.item(), head.beta.item(), head.gamma.item())

    @classmethod
    def from_metadata(cls, learned: Mapping[str, float]) -> "HeadParameters":
        """The entry `frn.head` of an ONNX file's metadata. FrnError if it holds others."""
        if learned.keys() != {"alpha", "beta", "gamma"}:
            raise FrnError(f"an FRN head has alpha, beta and gamma, not {', '.join(learned)}")
        if not all(abs(value) <= MAX_PARAMETER[name] for name, value in learned.items()):  # nor is NaN
            raise FrnError(f"alpha, beta and gamma are {learned}")
        return cls(**learned)

    def as_metadata(self) -> str:
        """The entry `frn.head` of an ONNX file's metadata."""
        return json.dumps(asdict(self), sort_keys=True)


USUAL_SHOTS = 5
"""Supports per class that gamma is learned with."""


def temperature(gamma: float, shots: float) -> float:
    """Gamma for classes of so many supports: it grows with their square root, as errors say more. Labels stay.

    docs/lab/recipes.md has the measurement.
    """
    return gamma * math.sqrt(shots / USUAL_SHOTS)


def probabilities(errors: NDArray[np.floating], gamma: float) -> NDArray[np.float64]:
    """Softmax over classes of -gamma times the class errors (Eq. 9), in float64: (..., way) to (..., way)."""
    logits = -gamma * errors.astype(np.float64)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: NDArray[np.float64] = weights / weights.sum(axis=-1, keepdims=True)
    return shares
