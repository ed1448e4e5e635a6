"""Shape of a few-shot episode. This module does not need torch."""

from dataclasses import dataclass

from frn.errors import FrnError


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeShape:
    """n-way, k-shot: `way` classes of `shot` support images, and `queries` query images per class."""

    way: int
    shot: int
    queries: int

    def __post_init__(self) -> None:
        for name, least in (("way", 2), ("shot", 1), ("queries", 1)):
            if getattr(self, name) < least:
                raise FrnError(f"an episode needs {name} >= {least}, not {getattr(self, name)}")

    @property
    def per_class(self) -> int:
        """Number of images that an episode takes from each of its classes."""
        return self.shot + self.queries

    def __str__(self) -> str:
        return f"{self.way}-way {self.shot}-shot"
