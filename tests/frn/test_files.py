import os
from pathlib import Path

import pytest

from frn.errors import FrnError
from frn.files import write_atomically


@pytest.mark.skipif(os.name == "nt", reason="no umask there")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_gets_the_umask_s_permissions_and_the_umask_is_never_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int, mode: int
) -> None:
    """It is the whole process's: another thread would create files that everyone may write to."""
    before = os.umask(umask)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", lambda mask: pytest.fail("the umask was changed"))
            write_atomically(tmp_path / "new" / "x.json", "{}")
    finally:
        os.umask(before)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["x.json"]
    assert (tmp_path / "new" / "x.json").stat().st_mode & 0o777 == mode


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(FrnError, match="cannot be written"):
        write_atomically(tmp_path / "x", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
