"""Damaged archives of onnxruntime-web."""

from pathlib import Path

import pytest
from frn_export.web.runtime import read_runtime

from frn.errors import FrnError
from tests.export.web.test_page import pack, package


def test_an_archive_with_a_damaged_byte_is_refused(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.tgz", package())
    data = path.read_bytes()
    assert read_runtime(path).binary.startswith(b"\0asm")
    for place in range(20, len(data) - 1, max(1, len(data) // 40)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(FrnError):
            read_runtime(path)
