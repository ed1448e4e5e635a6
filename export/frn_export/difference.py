"""Tolerances for differences between exported files and their originals, without torch (unlike `parity`)."""

from dataclasses import dataclass

from frn.errors import FrnError

CLASSIFIER_TOLERANCE = 2e-3
"""Tolerance, as a fraction of the query's energy: resizing in the graph may differ from Pillow's by one grey level."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest difference found and the largest allowed, both as fractions of `unit`."""

    what: str
    share: float
    allowed: float
    unit: str

    def __str__(self) -> str:
        return f"{self.what}: within {self.share:.1e} of {self.unit} of the original"

    def require(self) -> "Difference":
        """Raise FrnError with the difference if it is too large."""
        if not self.share <= self.allowed:
            raise FrnError(
                f"{self.what} differs from the original by {self.share:.1e} of {self.unit}; at most "
                f"{self.allowed:.0e} is allowed. Nothing was written."
            )
        return self
