import pytest


@pytest.fixture(autouse=True)
def _warm(warm_cache: None) -> None:
    """Commands read the drawings from the cache; `tests/frn/features` embeds them."""
