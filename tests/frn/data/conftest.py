"""Archives that are prepared by several tests."""

from pathlib import Path

import pytest

from tests.frn.data.miniatures import cub_files, tar_of


@pytest.fixture(scope="session")
def cub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tar_of(tmp_path_factory.mktemp("cub") / "CUB_200_2011.tgz", cub_files())


@pytest.fixture(scope="session")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Use only the first 40 of 200 classes, which is enough."""
    return tar_of(tmp_path_factory.mktemp("birds") / "CUB_200_2011.tgz", cub_files(classes=40))
