"""Learned parameters alpha, beta and gamma of the FRN head (Eq. 5-9), and what follows from them.

These are lambda, rho and probabilities. The torch head, the numpy enrolment and the ONNX graph all use this module,
which does not need torch. The terminal app reads parameters before its first paint, so numpy is imported late.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from frn.errors import FrnError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_PARAMETER = {"alpha": 50.0, "beta": 50.0, "gamma": 1e5}
"""Largest plausible magnitude of a learned parameter; with larger ones, classes cannot be enrolled."""
LAMBDA_FLOOR = 1e-6
"""Added to lambda by the authors' released code, not by the paper; kept so that published weights give equal logits."""

Scalar = TypeVar("Scalar")


def rescaled_lambda(exp_alpha: Scalar, p: int, d: int) -> Scalar:
    """Return lambda of Eq. 7 for p pool rows and d channels, p / d * exp(alpha), from a float or a tensor."""
    return p / d * exp_alpha + LAMBDA_FLOOR  # type: ignore[operator, return-value]


@dataclass(frozen=True, slots=True)
class HeadParameters:
    """The three learned parameters; the defaults are their initial values in training."""

    alpha: float = 0.0
    beta: float = 0.0
    gamma: float = 1.0
    """Temperature of the softmax (Eq. 9)."""

    def lam(self, p: int, d: int) -> float:
        """Return lambda of Eq. 7 for p pool rows and d channels."""
        return rescaled_lambda(math.exp(self.alpha), p, d)

    def rho(self) -> float:
        """Return rho of Eq. 7."""
        return math.exp(self.beta)

    @classmethod
    def of(cls, head: Any) -> "HeadParameters":
        """Return the parameters of a torch module with scalars alpha, beta and gamma."""
        return cls(head.alpha.item(), head.beta.item(), head.gamma.item())

    @classmethod
    def from_metadata(cls, learned: Mapping[str, float]) -> "HeadParameters":
        """Read the entry `frn.head` of an ONNX file's metadata. Raises FrnError if its values are not plausible."""
        if learned.keys() != {"alpha", "beta", "gamma"}:
            raise FrnError(f"an FRN head has alpha, beta and gamma, not {', '.join(learned)}")
        plausible = all(abs(value) <= MAX_PARAMETER[name] for name, value in learned.items())  # NaN is not
        if not plausible or learned["gamma"] <= 0:
            raise FrnError(f"alpha, beta and gamma are {learned}")
        return cls(**learned)

    def as_metadata(self) -> str:
        """Return the entry `frn.head` for an ONNX file's metadata."""
        return json.dumps(asdict(self), sort_keys=True)


USUAL_SHOTS = 5
"""Supports per class that gamma is trained for."""


def temperature(gamma: float, shots: float) -> float:
    """Return gamma for classes with this many supports; it grows with the square root and does not change labels.

    More supports make errors more informative; see docs/lab/recipes.md for the measurement.
    """
    return gamma * math.sqrt(shots / USUAL_SHOTS)


def probabilities(errors: "NDArray[np.floating]", gamma: float) -> "NDArray[np.float64]":
    """Return the softmax over classes of -gamma times the errors (Eq. 9), in float64: (..., way) to (..., way)."""
    import numpy as np

    logits = -gamma * errors.astype(np.float64)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
