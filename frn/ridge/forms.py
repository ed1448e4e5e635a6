"""Which form of the class error (Eq. 4) takes the least work, by the sizes alone.

Work is counted in multiplications of large float32 products on one core with AVX-512, where
assets/benchmarks/head.py measured: a float64 product takes twice the time of a float32 one, a Cholesky factor 1.6 p^3,
a triangular solve 1.7 p^2 d, and products whose result is as large as their factors wait for memory.

Shape letters: way classes, p pool rows, r locations per map, d channels, n = queries * r query locations.
"""

from dataclasses import dataclass
from typing import Literal

Form = Literal["whitened", "explained", "operator", "moments"]
"""A class as its whitened pool (p, d) and a damping (p, p); as the rows (p, d) that both come to; as its residual
operator B (d, d); or that operator against second moments."""

CACHED = 1 << 18
"""Numbers that stay close to the core."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of an episode's scoring."""

    way: int
    p: int
    queries: int
    r: int
    d: int

    def cheapest(self, *, gradient: bool) -> Form:
        """The form to take; with `gradient`, where its derivatives are wanted as well."""
        if gradient:  # of the operator it is no cheaper than that of the moments
            return "moments" if self._moments(gradient=True) < self._by_location(gradient=True) else "whitened"
        work: dict[Form, float] = {
            "whitened": self._by_location(gradient=False),
            "explained": self._by_rows,
            "operator": self._by_operator,
            "moments": self._moments(gradient=False),
        }
        return min(work, key=work.__getitem__)

    @property
    def n(self) -> int:
        """Query locations."""
        return self.queries * self.r

    @property
    def _operator(self) -> float:
        """To compute B of a class."""
        p, d = self.p, self.d
        return 3.8 * p**2 * d + 1.6 * p**3 + p * d**2 if p < d else 2.1 * p * d**2 + 4 * d**3

    def _by_location(self, *, gradient: bool) -> float:
        p, d, all_classes = self.p, self.d, self.n * self.way
        if p >= d:
            return (3 * all_classes * d**2 + 3.5 * self.way * self._operator) if gradient else self._by_operator
        forward = all_classes * (p * d + p**2) + self.way * (3.8 * p**2 * d + 3.2 * p**3)
        if not gradient:
            return forward
        return forward + all_classes * (2 * p * d + 2 * p**2) + self.way * 7 * p**2 * d

    @property
    def _by_rows(self) -> float:
        p, d = self.p, self.d
        return self.n * self.way * p * d + self.way * (3.8 * p**2 * d + 9 * p**3) if p < d else self._by_operator

    @property
    def _by_operator(self) -> float:
        return self.n * self.way * self.d**2 + self.way * self._operator

    def _moments(self, *, gradient: bool) -> float:
        p, d = self.p, self.d
        in_cache = self.way * d**2 <= CACHED
        dots = (2 if in_cache else 6) * self.queries * self.way * d**2
        forward = 3 * self.n * d**2 + dots + self.way * (self._operator + d**3)
        if not gradient:
            return forward
        return forward + 5 * self.n * d**2 + 2 * dots + self.way * (1.7 * p * min(p, d) * d + 2 * p * d**2 + 2 * d**3)
