"""Names that are valid on every file system and not taken."""

from itertools import islice

import pytest
from frn_tui.engine.files.placing import fresh_name, numbered, safe_name


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
