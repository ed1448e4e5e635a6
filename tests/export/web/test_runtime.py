"""Limits and versions of onnxruntime-web."""

from pathlib import Path

import pytest
from frn_export.web.runtime import read_runtime

from frn.errors import FrnError
from tests.export.web.test_page import pack, package


@pytest.mark.parametrize(
    ("version", "is_refused"),
    [("1.19.9", True), ("1.20.0", False), ("1.20", False), ("1.21.0-dev.1", False), ("2.0.0", False), ("0.99", True)],
)
def test_runtime_must_have_version_1_20_or_newer(tmp_path: Path, version: str, is_refused: bool) -> None:
    path = pack(tmp_path / "x.tgz", package(version=version))
    if is_refused:
        with pytest.raises(FrnError, match=rf"is onnxruntime-web {version}; a page needs onnxruntime-web 1\.20 or"):
            read_runtime(path)
    else:
        assert read_runtime(path).version == version


def test_an_archive_with_a_damaged_byte_is_refused(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.tgz", package())
    data = path.read_bytes()
    assert read_runtime(path).binary.startswith(b"\0asm")
    for place in range(20, len(data) - 1, max(1, len(data) // 40)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(FrnError):
            read_runtime(path)
