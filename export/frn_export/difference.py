"""How far an exported file may be from what it was made of. Free of torch, unlike the comparisons in `parity`."""

from dataclasses import dataclass

from frn.errors import FrnError

CLASSIFIER_TOLERANCE = 2e-3
"""Tolerance, as a fraction of the query's energy: resizing in the graph may differ from Pillow's by one grey level."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest difference found, and the largest allowed, both as a share of `unit`."""

    what: str
    share: float
    allowed: float
    unit: str

    def __str__(self) -> str:
        return f"{self.what}: within {self.share:.1e} of {self.unit} of what it was exported from"

    def require(self) -> "Difference":
        """Refuse a file that computes something else, by an FrnError with the difference found."""
        if not self.share <= self.allowed:
            raise FrnError(
                f"{self.what} differs from what it was exported from by {self.share:.1e} of {self.unit}; at most "
                f"{self.allowed:.0e} is allowed. Nothing was written."
            )
        return self
