"""Placing files without overwriting, one system call at a time."""

import errno
import os
import shutil
from itertools import islice
from pathlib import Path

import pytest
from frn_tui.engine.files import placing
from frn_tui.engine.files.placing import (
    copy_new,
    fresh_name,
    is_same_photo,
    move_new,
    numbered,
    remove_twin,
    rename_new,
    safe_name,
)

from frn.system.files import PART, beside


def write(path: Path, text: str, seconds: float = 1e9) -> Path:
    path.write_text(text)
    os.utime(path, (seconds, seconds))
    return path


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EACCES])
def test_name_is_reserved_where_a_rename_cannot_refuse_to_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(source: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(placing, "rename_no_replace", fail)
    source, target = write(tmp_path / "a", "1"), tmp_path / "b"
    if number == errno.EACCES:  # another reason
        with pytest.raises(OSError, match="Permission denied"):
            rename_new(source, target)
        assert not target.exists()
        return
    rename_new(source, target)
    assert (target.read_text(), source.exists()) == ("1", False)
    write(source, "2")
    with pytest.raises(FileExistsError):
        rename_new(source, target)
    assert (target.read_text(), source.read_text()) == ("1", "2")
    with pytest.raises(FileNotFoundError):
        rename_new(tmp_path / "away", tmp_path / "c")
    assert not (tmp_path / "c").exists()  # the reserved name is free again


def test_copy_keeps_time_and_mode_and_returns_the_status_of_the_original(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a", "1"), tmp_path / "b"
    source.chmod(0o640)
    beside(target, PART).write_text("left by a killed program")
    assert copy_new(source, target).st_ino == source.stat().st_ino
    assert (target.read_text(), target.stat().st_mtime, target.stat().st_mode & 0o777) == ("1", 1e9, 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    with pytest.raises(FileExistsError):
        copy_new(write(tmp_path / "c", "2"), target)
    assert target.read_text() == "1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


def test_copy_succeeds_where_times_and_modes_cannot_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Path, target: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(shutil, "copystat", fail)
    copy_new(write(tmp_path / "a", "1"), tmp_path / "b")
    assert (tmp_path / "b").read_text() == "1"


@pytest.mark.parametrize(("number", "is_copied"), [(errno.EXDEV, True), (errno.EACCES, False)])
def test_only_a_move_to_another_disk_becomes_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_copied: bool
) -> None:
    source, target, rename = write(tmp_path / "a", "1"), tmp_path / "b", placing.rename_new

    def fail(one: Path, other: Path) -> None:
        if one == source:
            raise OSError(number, os.strerror(number))
        rename(one, other)

    monkeypatch.setattr(placing, "rename_new", fail)
    if is_copied:
        move_new(source, target)
    else:
        with pytest.raises(OSError, match="Permission denied"):
            move_new(source, target)
    assert (target.exists(), source.exists()) == (is_copied, not is_copied)


@pytest.mark.parametrize(
    ("ours", "theirs", "is_same"),
    [
        ("photo", "photo", True),
        ("photo", "phot", False),
        ("photo", "phoTo", False),
        ("photo", "phott", False),
        ("", "", True),
        ("12345678", "12345678", True),
        ("12345678", "12345679", False),
        ("123456789", "123456780", False),
    ],
)
def test_same_photos_have_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: str, theirs: str, is_same: bool
) -> None:
    monkeypatch.setattr(placing, "_PIECE", 4)
    assert is_same_photo(write(tmp_path / "a", ours), write(tmp_path / "b", theirs)) == is_same


def test_links_folders_and_missing_files_are_no_twins(tmp_path: Path) -> None:
    photo, link = write(tmp_path / "a", "x" * len(str(tmp_path / "a"))), tmp_path / "link"
    link.symlink_to(photo)  # as many bytes as the photo
    (tmp_path / "folder").mkdir()
    assert not any(is_same_photo(photo, tmp_path / name) for name in ("link", "folder", "away"))
    assert is_same_photo(link, photo)


def test_twin_is_removed_only_if_another_file_has_the_same_bytes(tmp_path: Path) -> None:
    photo, twin, other = write(tmp_path / "a", "1"), write(tmp_path / "b", "1"), write(tmp_path / "c", "2")
    for path in (photo, other):
        with pytest.raises(OSError, match="is no longer the same photo") as refused:
            remove_twin(photo, path)
        assert refused.value.errno == errno.EBUSY
        assert photo.exists()
    remove_twin(photo, twin)
    assert not photo.exists()


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ('a/b\\c:d*e?f"g<h>i|j', "a_b_c_d_e_f_g_h_i_j"),
        ("tab\tnew\nline", "tab_new_line"),
        (" . jay . ", "jay"),
        ("jay.png. ", "jay.png"),
        ("..", "_"),
        ("", "_"),
        ("jay\udcff", "jay_"),
        ("Gräßliche Eule", "Gräßliche Eule"),
        ("x" * 101 + ".jpeg", "x" * 100 + ".jpeg"),
        ("x" * 101 + "." + "y" * 19, "x" * 100 + "." + "y" * 19),
        ("x" * 101 + "." + "y" * 20, "x" * 100),  # so long an ending is part of the name
        ("x" + "é" * 60, "x" + "é" * 49),
    ],
)
def test_name_has_no_reserved_characters_and_at_most_a_hundred_bytes(name: str, safe: str) -> None:
    assert safe_name(name) == safe


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("x.jpg", ["x.jpg", "x-2.jpg", "x-3.jpg"]),
        ("a.tar.gz", ["a.tar.gz", "a.tar-2.gz", "a.tar-3.gz"]),
        ("jay", ["jay", "jay-2", "jay-3"]),
        (".hidden", [".hidden", ".hidden-2", ".hidden-3"]),
    ],
)
def test_numbers_come_before_the_ending_and_start_at_two(name: str, names: list[str]) -> None:
    assert list(islice(numbered(name), 3)) == names


def test_names_that_differ_only_in_case_count_as_equal() -> None:
    taken: set[str] = set()
    found = [fresh_name(name, taken) for name in ("Jay.jpg", "JAY.jpg", "jay.jpg", "straße", "STRASSE")]
    assert found == ["Jay.jpg", "JAY-2.jpg", "jay-3.jpg", "straße", "STRASSE-2"]
