"""Reports as files: what is in them, and that nothing can get out of them or into them."""

import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from frn.cli.main import app
from frn.models.zoo import assets_folder
from frn.report.page import POLICY, page, section

SAMPLES = assets_folder() / "samples"
EVIL = "<script>alert(1)</script> &\"'"


def frn(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def assert_alone(text: str) -> None:
    """The page asks for nothing outside of itself, and says so to the browser."""
    for tag, attributes in Elements(text).found:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:", "#")), (tag, value)
    assert POLICY in text
    assert "url(" not in text
    assert "@import" not in text


def test_a_report_of_an_evaluation_shows_every_shot_and_the_same_numbers(moths: Path, tmp_path: Path) -> None:
    out = tmp_path / "eval.html"
    done = frn("eval", "conv4", "--data", moths, "--way", 2, "--queries", 5, "--episodes", 30, "--report", out, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    text = out.read_text(encoding="utf-8")
    assert_alone(text)
    for row in rows:
        assert f"{float(row['accuracy']):.2f} ± {float(row['ci95']):.2f} %" in text
        assert f"2-way {row['shot']}-shot: known and unknown photos" in text
        assert f"2-way {row['shot']}-shot: hardest episodes" in text
    assert "error map of" in text
    assert [row["shot"] for row in rows] == ["1", "5"]


def test_a_report_changes_no_number(moths: Path, tmp_path: Path) -> None:
    words = ("eval", "conv4", "--data", moths, "--shot", 1, "--queries", 5, "--episodes", 20, "--csv")
    plain, reported = (frn(*words, *more).stdout for more in ((), ("--report", tmp_path / "r.html")))
    without_time = [re.sub(r",[\d.]+$", "", line) for line in (plain.splitlines()[1], reported.splitlines()[1])]
    assert without_time[0] == without_time[1]


def test_too_few_classes_for_unknown_ones_are_told(moths: Path, tmp_path: Path) -> None:
    out = tmp_path / "eval.html"
    frn("eval", "conv4", "--data", moths, "--shot", 1, "--queries", 5, "--episodes", 5, "--report", out)
    assert "Not measured: it needs twice as many classes" in out.read_text(encoding="utf-8")


def test_a_report_of_photos_has_each_photo_and_each_broken_file(tmp_path: Path, truncated_jpeg: Path) -> None:
    out = tmp_path / "photos.html"
    done = frn("classify", SAMPLES / "moths", SAMPLES / "queries", truncated_jpeg, "--report", out, "--csv")
    assert done.exit_code == 1
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    text = out.read_text(encoding="utf-8")
    assert_alone(text)
    cards = [attributes for tag, attributes in Elements(text).found if tag == "li"]
    assert len(cards) == len(list((SAMPLES / "queries").iterdir())) == len(rows) - 1
    known = sorted(row["label"] for row in rows if row["unknown"] == "False")
    assert sorted(str(card["data-key"])[1:] for card in cards if card["data-key"] != "?") == known
    assert "truncated.jpg" in text
    assert rows[-1]["error"].endswith(")")


def test_names_cannot_become_markup(tmp_path: Path) -> None:
    photo = next((SAMPLES / "moths" / "eyed footman").iterdir()).read_bytes()
    for name in (EVIL.replace("/", "∕"), "unknown"):
        (tmp_path / "classes" / name).mkdir(parents=True)
        (tmp_path / "classes" / name / "a.jpg").write_bytes(photo + name.encode())
    out = tmp_path / "out.html"
    frn("classify", tmp_path / "classes", tmp_path / "classes" / "unknown", "--report", out, "--model", "conv4")
    assert [tag for tag, _ in Elements(out.read_text(encoding="utf-8")).found].count("script") == 1  # the page's own
    text = page(EVIL, "", [section(EVIL, "", note=EVIL, name=EVIL)])
    assert "script" not in [tag for tag, _ in Elements(text).found]


@pytest.mark.parametrize("command", [("eval", "conv4", "--data", "."), ("classify", ".", ".")])
@pytest.mark.parametrize(
    ("words", "reason"),
    [(("--report", "out.pdf"), "out.pdf: a report is a page"), (("--json", "--csv"), "--json and --csv both take")],
)
def test_what_cannot_be_written_is_refused_before_the_work(
    command: tuple[str, ...], words: tuple[str, ...], reason: str
) -> None:
    done = frn(*command, *words)
    assert done.exit_code == 1
    assert reason in done.stderr
