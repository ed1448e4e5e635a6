"""What terminals paste when files are dropped."""

import pytest
from frn_tui.paths import parse_paths, shortened


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("/a/b.jpg", ["/a/b.jpg"]),
        ("  /a/b c.jpg \n\n/d.jpg\n", ["/a/b c.jpg", "/d.jpg"]),
        ("'/a/b c.jpg' '/d.jpg'", ["/a/b c.jpg", "/d.jpg"]),
        ('"/a/b c.jpg"', ["/a/b c.jpg"]),
        (r"/a/b\ c.jpg /d.jpg", ["/a/b c.jpg", "/d.jpg"]),
        ("/a/b.jpg /c/d.jpg", ["/a/b.jpg", "/c/d.jpg"]),
        ("file:///a/b%20c%C3%A4.jpg file:///d.jpg", ["/a/b cä.jpg", "/d.jpg"]),
        ("/a/Tom's photo.jpg", ["/a/Tom's photo.jpg"]),
        ("", []),
    ],
)
def test_pasted_text_becomes_paths(text: str, paths: list[str]) -> None:
    assert parse_paths(text) == paths


def test_a_path_in_the_users_home_is_shown_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert [shortened(path) for path in ("/home/ada/photos", "/home/ada", "/home/adam/photos")] == [
        "~/photos",
        "~",
        "/home/adam/photos",
    ]
