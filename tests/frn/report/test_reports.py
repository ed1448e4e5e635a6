"""HTML reports, and error maps over photos."""

import csv
import gc
import json
import re
import tempfile
import tracemalloc
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from frn.estimator.loading import load_classifier
from frn.images.ramp import RAMP
from frn.report import photos_page
from frn.report.heat_maps import GAP, PANEL, Panel, mark, overlay, sheet
from frn.report.page import policy, render
from frn.system.files import MARK
from tests.commands import frn
from tests.drawings import MOTHS, PHOTO, QUERIES

pytestmark = pytest.mark.usefixtures("warm_cache")
EVIL = "<script>alert(1)</script> &\"'"


class Elements(HTMLParser):
    """Return the elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def assert_alone(text: str) -> None:
    """The page makes no external requests and tells the browser to block them."""
    found = Elements(text).found
    for tag, attributes in found:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:", "#")), (tag, value)
    style, script = (re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("style", "script"))
    assert style
    assert f'content="{policy(style[1], script[1] if script else "")}"' in text
    assert "unsafe" not in text.partition("<title>")[0]
    assert not any("style" in attributes or any(n.startswith("on") for n in attributes) for _, attributes in found)
    assert "url(" not in text
    assert "@import" not in text


def test_a_report_shows_every_photo_and_every_broken_file(tmp_path: Path, truncated_jpeg: Path) -> None:
    out = tmp_path / "photos.html"
    done = frn("classify", MOTHS, QUERIES, truncated_jpeg, "--report", out, "--json")
    assert done.exit_code == 1
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    text = out.read_text(encoding="utf-8")
    assert_alone(text)
    cards = [attributes for tag, attributes in Elements(text).found if tag == "li"]
    assert len(cards) == len(list(QUERIES.iterdir())) == len(rows) - 1
    known = sorted(row["label"] for row in rows if row.get("unknown") is False)
    assert sorted(str(card["data-key"])[1:] for card in cards if card["data-key"] != "?") == known
    assert "truncated.jpg" in text
    assert rows[-1]["error"].endswith(")")


def test_a_score_has_the_parts_that_decided_against_the_true_class(tmp_path: Path) -> None:
    (tmp_path / "q" / "banded footman").mkdir(parents=True)
    photo = tmp_path / "q" / "banded footman" / "a.jpg"
    photo.write_bytes((QUERIES / "tailed footman 6.jpg").read_bytes())
    assert frn("score", MOTHS, tmp_path / "q", "--report", tmp_path / "s.html").exit_code == 0
    text = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert_alone(text)
    (why,) = [found["aria-label"] for tag, found in Elements(text).found if found.get("class") == "why"]
    words = ("explain", MOTHS, photo, "--against", "banded footman", "--json", "--out", tmp_path / "x.png")
    assert why == json.loads(frn(*words).stdout)["why"]


def test_a_report_has_the_parts_that_explain_draws(tmp_path: Path) -> None:
    photo, page = PHOTO, tmp_path / "r.html"
    frn("classify", MOTHS, photo, "--report", page)
    (svg,) = [found for tag, found in Elements(page.read_text(encoding="utf-8")).found if tag == "svg"]
    parts = json.loads(svg["data-parts"] or "")
    drawn = json.loads(frn("explain", MOTHS, photo, "--json", "--out", tmp_path / "x.png").stdout)
    assert svg["aria-label"] == drawn["why"]
    assert [part["share"] for part in parts] == pytest.approx([part["share"] for part in drawn["parts"]], abs=1e-3)
    for part, other in zip(parts, drawn["parts"], strict=True):
        for one in part["classes"]:
            shares = [source["share"] for source in other["from"][one["name"]]]
            assert [source[-1] for source in one["from"]] == pytest.approx(shares, abs=1e-3)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_temporary_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: open("/dev/full", "r+b", buffering=0))  # noqa: SIM115
    words = ("classify", MOTHS, QUERIES, "--model", "conv4")
    result = frn(*words, "--report", tmp_path / "report.html")
    assert result.exit_code == 1
    assert f"{tempfile.gettempdir()}: a report cannot be kept there (No space left on device)" in result.stderr


def test_a_large_report_is_split_into_pages_that_link_to_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(photos_page, "PER_PAGE", 8)
    words = ("classify", MOTHS, QUERIES, "--model", "conv4", "--json", "--report")
    done = frn(*words, tmp_path / "my photos.html")
    photos = len(done.stdout.splitlines())
    pages = [tmp_path / name for name in ("my photos.html", "my photos-2.html", "my photos-3.html")]
    assert (photos, sorted(tmp_path.glob("*.html"))) == (18, sorted(pages))
    assert "the report of 18 photos will take about 0 MB, in 3 pages: my photos.html to my photos-3.html" in done.stderr
    sure: list[tuple[bool, float]] = []
    for page_path, count in zip(pages, (8, 8, 2), strict=True):
        found = Elements(page_path.read_text(encoding="utf-8")).found
        cards = [attributes for tag, attributes in found if tag == "li"]
        assert len(cards) == count
        sure += [(card["data-key"] != "?", float(str(card["data-sure"]))) for card in cards]
        assert [a["href"] for tag, a in found if tag == "a" and a["href"] != "#main"] == [
            other.name.replace(" ", "%20") for other in pages if other != page_path
        ]
    assert sure == sorted(sure, reverse=True)
    pages[1].write_text("a page of mine")
    refused = frn(*words, tmp_path / "my photos.html")
    assert refused.exit_code == 1
    assert "my photos-2.html: already exists" in refused.stderr
    assert pages[1].read_text() == "a page of mine"


def test_memory_does_not_grow_with_the_number_of_photos_in_a_report(tmp_path: Path) -> None:
    """Each photo used to take 85 KB."""
    classifier = load_classifier(MOTHS, "conv4")[0]
    album, photo = photos_page.Album(classifier), next(QUERIES.iterdir())
    list(album.classify([photo] * 10))
    tracemalloc.start()
    list(album.classify([photo] * 50))
    album.write(tmp_path / "photos.html", "frn classify")
    gc.collect()
    grown, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 50 * 5_000
    assert peak < 5_000_000
    assert (tmp_path / "photos.html").stat().st_size > 60 * 5_000


def test_near_copy_of_an_example_is_reported_wherever_it_is_classified(tmp_path: Path) -> None:
    """The copy was saved again at a different size; classes may also come from the cache."""
    example = sorted((MOTHS / "eyed footman").iterdir())[0]
    query, page, drawn = tmp_path / "again.png", tmp_path / "out.html", tmp_path / "out.png"
    with Image.open(example) as image:
        image.resize((image.width // 2, image.height // 2)).save(query)
    for _ in range(2):
        told = frn("classify", MOTHS, query, "--model", "conv4")
        assert f"nearly the same photo as {example}" in told.stdout
    table = tmp_path / "out.csv"
    frn("classify", MOTHS, query, "--model", "conv4", "--out", table)
    (row,) = csv.DictReader(table.read_text(encoding="utf-8").splitlines())
    assert (row["example_of"], row["near_copy_of"]) == ("", str(example))
    other = next(QUERIES.iterdir())
    told = frn("classify", MOTHS, query, example, other, "--model", "conv4", "--json", "--report", page)
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    assert [line.get("near_copy_of") for line in lines] == [str(example), None, None]
    assert [line.get("example_of") for line in lines] == [None, "eyed footman", None]
    assert page.read_text(encoding="utf-8").count(f"nearly the same photo as {example.name}") == 1
    told = frn("explain", MOTHS, query, "--model", "conv4", "--json", "--out", drawn)
    assert json.loads(told.stdout)["near_copy_of"] == str(example)


def test_probability_of_a_rejected_class_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither text, page nor drawing of an unknown photo shows it; they show how well it is known."""
    from frn.report import heat_maps

    photo, page = next(QUERIES.iterdir()), tmp_path / "out.html"
    notes: list[str] = []
    drawn = heat_maps.sheet

    def sheet(crop: Any, title: str, panels: list[heat_maps.Panel], **options: Any) -> Image.Image:
        notes.extend(panel.note for panel in panels)
        return drawn(crop, title, panels, **options)

    monkeypatch.setattr(heat_maps, "sheet", sheet)
    words = (MOTHS, photo, "--model", "conv4")
    told = frn("classify", *words, "--threshold", "1", "--report", page, "--json")
    assert json.loads(told.stdout)["unknown"]
    shares = [f"{share:.1%}" for share in json.loads(told.stdout)["probabilities"].values()]
    text = frn("classify", *words, "--threshold", "1").stdout + page.read_text(encoding="utf-8").partition("<main")[2]
    assert "known" in text
    assert not [share for share in shares if re.search(rf"(?<!\d){share}", text)]
    project = tmp_path / "moths.frn.json"
    frn("enroll", MOTHS, "--out", project, "--model", "conv4", "--threshold", "1")
    frn("explain", project, photo, "--maps", "--out", tmp_path / "out.png")
    assert len(notes) > 1
    assert all(note.endswith("% explained") for note in notes)


def test_names_cannot_become_markup(tmp_path: Path) -> None:
    photo = next((MOTHS / "eyed footman").iterdir()).read_bytes()
    for name in (EVIL.replace("/", "∕"), "unknown"):
        (tmp_path / "classes" / name).mkdir(parents=True)
        (tmp_path / "classes" / name / "a.jpg").write_bytes(photo + name.encode())
    out = tmp_path / "out.html"
    frn("classify", tmp_path / "classes", tmp_path / "classes" / "unknown", "--report", out, "--model", "conv4")
    assert [tag for tag, _ in Elements(out.read_text(encoding="utf-8")).found].count(
        "script"
    ) == 1  # the page's own script
    text = "".join(render("page.html", EVIL, EVIL, {EVIL: EVIL}))
    assert "script" not in [tag for tag, _ in Elements(text).found]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--report", "out.pdf"), "out.pdf: a report is an HTML page"),
        (("--json", "--out", "x.csv"), "--json prints the answers and --out writes them to a file"),
    ],
)
def test_unwritable_outputs_are_refused_early(words: tuple[str, ...], reason: str) -> None:
    done = frn("classify", ".", ".", *words)
    assert done.exit_code == 1
    assert reason in done.stderr


CROP = np.random.default_rng(0).integers(0, 256, (84, 84, 3), dtype=np.uint8)


def lightness(picture: object) -> np.ndarray:
    return np.asarray(picture, dtype=float) @ [0.299, 0.587, 0.114]


def test_worst_explained_block_is_the_brightest() -> None:
    errors = np.zeros((5, 5))
    errors[1, 3] = 2.0
    grey = np.full((85, 85, 3), 90, dtype=np.uint8)
    light = lightness(overlay(grey, errors, low=0, high=2))
    blocks = light.reshape(5, 17, 5, 17).mean((1, 3))
    assert np.unravel_index(blocks.argmax(), (5, 5)) == (1, 3)
    assert np.allclose(light.reshape(5, 17, 5, 17).std((1, 3)), 0)  # drawn as blocks, without smoothing


def test_overlay_covers_15_to_75_percent_with_rising_error() -> None:
    grey = np.full((10, 20, 3), 90, dtype=np.uint8)
    drawn = np.asarray(overlay(grey, np.array([[0.0, 2.0]]), low=0, high=2))
    for column, share, colour in ((0, 0.15, RAMP[0]), (19, 0.75, RAMP[-1])):
        expected = (1 - share) * 90 + share * np.array(colour)
        assert np.abs(drawn[5, column] - expected).max() <= 0.5


def test_colour_ramp_gets_steadily_lighter() -> None:
    assert (np.diff(lightness(np.array(RAMP))) > 0).all()


def test_map_without_contrast_is_drawn_dark() -> None:
    flat = overlay(CROP, np.full((5, 5), 3.0), low=3, high=3)
    assert lightness(flat).mean() < lightness(CROP).mean()


def test_errors_beyond_the_scale_are_clipped() -> None:
    errors = np.random.default_rng(0).random((5, 5)) * 9 - 4
    beyond = overlay(CROP, errors, low=0, high=1)
    assert beyond.tobytes() == overlay(CROP, errors.clip(0, 1), low=0, high=1).tobytes()


def test_sheet_shows_the_unchanged_photo_and_a_panel_per_class() -> None:
    panels = [Panel(f"class {i} " + "x" * 200, "note ß", np.random.default_rng(i).random((5, 5))) for i in range(5)]
    picture = sheet(CROP, "a photo with a very long name " * 5, panels)
    assert picture.size[0] == 4 * (PANEL + GAP) + GAP
    photo = np.asarray(picture.crop((GAP, GAP, GAP + PANEL, GAP + PANEL)).resize((84, 84), 0))
    np.testing.assert_array_equal(photo, CROP)
    assert sheet(CROP, "t", panels[:1]).size[0] == 2 * (PANEL + GAP) + GAP


def test_panels_fill_rows_of_four_and_share_one_scale() -> None:
    maps = [np.random.default_rng(number).random((5, 5)) for number in range(5)]
    low, high = min(m.min() for m in maps), max(m.max() for m in maps)
    picture = sheet(CROP, "", [Panel("", "", errors) for errors in maps])
    assert picture.size == (4 * 264 + 12, 2 * 312 + 12)
    for number, errors in enumerate(maps, 1):
        left, top = 12 + number % 4 * 264, 12 + number // 4 * 312
        shown = picture.crop((left, top, left + 252, top + 252))
        expected = overlay(CROP, errors, low=low, high=high).resize((252, 252), 0)
        assert shown.tobytes() == expected.tobytes(), number
    assert (np.asarray(picture)[-12:] == 255).all()


def test_saved_images_name_their_creator() -> None:
    ((kind, content, *_),) = mark().chunks
    assert (kind, content) == (b"tEXt", b"Software\0" + MARK.encode())
