"""Archives that several tests prepare."""

from pathlib import Path

import pytest

from tests.frn.data.miniatures import cub_files, tar_of


@pytest.fixture(scope="session")
def cub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tar_of(tmp_path_factory.mktemp("cub") / "CUB_200_2011.tgz", cub_files())


@pytest.fixture(scope="session")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 40 classes, where all 200 would tell no more."""
    return tar_of(tmp_path_factory.mktemp("birds") / "CUB_200_2011.tgz", cub_files(classes=40))
