"""Limits and versions of onnxruntime-web."""

import gzip
import io
import re
import tarfile
from pathlib import Path

import pytest
from frn_export.web.runtime import BINARY, read_runtime

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


@pytest.mark.parametrize("more", [0, 1])
def test_file_of_up_to_64_mib_is_read(tmp_path: Path, more: int) -> None:
    binary, path = 64 * 2**20 + more, tmp_path / "x.tgz"
    pack(path, {name: data for name, data in package().items() if "wasm-simd" not in name})
    with gzip.open(path) as packed:
        start = packed.read().rstrip(b"\0")
    start += bytes(-len(start) % 512)
    member = tarfile.TarInfo(f"package/dist/{BINARY}")
    member.size = binary
    begin = member.tobuf() + b"\0asm"
    zeros = gzip.compress(bytes(2**20), 1)  # gzip files may be concatenated
    rest = gzip.compress(bytes(2**20 - 4 + more + (-more % 512) + 1024), 1)
    path.write_bytes(gzip.compress(start + begin, 1) + zeros * 63 + rest)
    if more:
        with pytest.raises(FrnError, match=f"has no package/dist/{BINARY}"):
            read_runtime(path)
    else:
        assert len(read_runtime(path).binary) == binary


@pytest.mark.parametrize(
    ("size", "reason"), [(2**30, "is not an archive of"), (2**30 + 1, "the limit is 1.02e+03 MiB")]
)
def test_archive_of_up_to_one_gib_is_opened(tmp_path: Path, size: int, reason: str) -> None:
    with (tmp_path / "x.tgz").open("wb") as file:
        file.truncate(size)
    with pytest.raises(FrnError, match=re.escape(reason)):
        read_runtime(tmp_path / "x.tgz")


def test_an_archive_with_a_damaged_byte_is_refused(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.tgz", package())
    data = path.read_bytes()
    assert read_runtime(path).binary.startswith(b"\0asm")
    for place in range(20, len(data) - 1, max(1, len(data) // 40)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(FrnError):
            read_runtime(path)


def test_error_names_the_first_missing_file(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("package/dist/other.js"), io.BytesIO())
    with pytest.raises(FrnError, match=r"x\.tgz: has no package/package\.json\. Run `npm pack onnxruntime-web"):
        read_runtime(tmp_path / "x.tgz")
