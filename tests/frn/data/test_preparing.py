"""Preparing a data set: unexpected archives, interruptions, downloads."""

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import frn.data.prepare as preparation
from frn.data.prepare import prepare, sources
from frn.data.prepare.published import BENCHMARKS
from frn.errors import FrnError
from frn.system import archives
from tests.commands import frn
from tests.frn.data.miniatures import Files, aircraft_files, cub_files, picture, prepared, tar_of, unpacked, zip_of


def test_message_about_a_wrong_checksum_shows_both_checksums(birds: Path, tmp_path: Path) -> None:
    with pytest.raises(
        FrnError, match=r"MD5 checksum is [0-9a-f]{32}, but the released CUB_200_2011\.tgz has 97eceeb196"
    ):
        prepare("cub-raw", [birds.parent], tmp_path / "out")
    (tmp_path / "CUB_200_2011.tgz").write_text("<!DOCTYPE html><title>Sign in</title>")
    for unofficial in (False, True):
        with pytest.raises(FrnError, match="it is a web page"):
            prepare("cub-raw", [tmp_path / "CUB_200_2011.tgz"], tmp_path / "out", unofficial=unofficial)


def test_truncated_archive_is_refused(birds: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.tgz"
    torn.write_bytes(birds.read_bytes()[: birds.stat().st_size // 2])
    with pytest.raises(FrnError, match=r"torn\.tgz: is not a complete archive"):
        prepare("cub-raw", [torn], tmp_path / "out", unofficial=True)


@pytest.mark.parametrize("name", ["../evil.png", "a/../../evil.png", "/evil.png", "C:\\evil.png", "..\\evil.png"])
@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_archive_entries_outside_the_folder_are_refused(
    tmp_path: Path, pack: Callable[[Path, Files], Path], name: str
) -> None:
    files = {"train/a/1.png": picture(1, kind="PNG"), f"train/{name}" if name[0] == "." else name: b"x"}
    suffix = ".tar" if pack is tar_of else ".zip"
    source = pack(tmp_path / f"birds{suffix}", files)
    with pytest.raises(FrnError, match="points outside the archive"):
        prepare("folder", [source], tmp_path / "out")
    assert {path.name for path in tmp_path.rglob("*")} <= {source.name, "cache"}


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../../etc/passwd"])
def test_archive_links_outside_the_folder_are_refused(tmp_path: Path, target: str) -> None:
    source = tar_of(tmp_path / "birds.tar", {"train/a/1.png": picture(1, kind="PNG"), "train/a/2.png": target})
    with pytest.raises(FrnError, match="points outside the archive"):
        prepare("folder", [source], tmp_path / "out")


def test_archives_beyond_the_limits_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = zip_of(tmp_path / "birds.zip", {f"train/a/{i}.png": picture(i, kind="PNG") for i in range(4)})
    for name, limit in (("MAX_ENTRIES", 3), ("MAX_ENTRY", 100), ("MAX_ARCHIVE", 3000)):
        with monkeypatch.context() as patch:
            patch.setattr(archives, name, limit)
            with pytest.raises(FrnError, match="unpacks to more than an image data set needs"):
                prepare("folder", [source], tmp_path / "out")
    with sources.Sources([source]) as opened, pytest.raises(FrnError, match=r"0\.png: is larger than 0 MiB, the limit"):
        opened.files()[0].read(limit=100)


def test_impossible_file_sizes_are_refused(tmp_path: Path) -> None:
    """A negative size would make the listing loop forever; the others are far beyond the file."""
    good = tar_of(tmp_path / "good.tar", {"train/a/1.png": picture(1, kind="PNG")}).read_bytes()
    for number, size in enumerate([(-512).to_bytes(12, signed=True), b"\x80" + b"\xff" * 11, b"77777777777\0"]):
        for kind in b"0xL":
            bad = bytearray(good)
            bad[124:136], bad[156] = size, kind
            bad[148:156] = b" " * 8
            bad[148:156] = b"%06o\0 " % sum(bad[:512])
            source = tmp_path / f"{number}{kind}.tar"
            source.write_bytes(bad)
            with pytest.raises(
                FrnError, match=r"is not a complete archive|no files|no images|unpacks to more"
            ) as caught:
                prepare("folder", [source], tmp_path / "out")
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
def test_archive_that_contains_only_names_is_refused_at_once(tmp_path: Path, suffix: str) -> None:
    names = [f"train/a/{number}.png" for number in range(2000)]
    source = tmp_path / f"names{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(source, "w") as archive:
            for name in names:
                archive.writestr(name, b"")
    else:
        tar_of(source, dict.fromkeys(names, b""))
    for limit in ("MAX_DIRECTORY", "FREE_ENTRIES"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(archives, limit, 1000)
            if suffix == ".zip" or limit == "FREE_ENTRIES":
                with pytest.raises(FrnError, match=r"is almost only file names|unpacks to more"):
                    prepare("folder", [source], tmp_path / "out")


def test_a_tar_that_unpacks_to_many_times_its_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tar_of(tmp_path / "zeros.tar.gz", {"train/a/1.png": bytes(4 << 20)})
    monkeypatch.setattr(archives, "FREE_BYTES", 1 << 20)
    with pytest.raises(FrnError, match="unpacks to more than an image data set needs"):
        prepare("folder", [source], tmp_path / "out")


def test_a_data_set_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    source = unpacked(tmp_path / "photos", {"train/jay/a.jpg": picture(1), "train/jay/b.jpg": picture(2)})
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        prepare("folder", [source], out, progress=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]
    prepare("folder", [source], out)
    assert prepared(out) == {"train/jay/a.jpg", "train/jay/b.jpg"}
    with pytest.raises(FrnError, match="out: already exists"):
        prepare("folder", [source], out)


def interrupt(done: int, total: int) -> None:
    raise KeyboardInterrupt


def test_output_folder_inside_the_source_is_not_read_as_source(tmp_path: Path) -> None:
    home = unpacked(tmp_path / "data", cub_files(classes=8))
    for name in ("cub", "again"):
        counts = prepare("cub-raw", [home], home / name, unofficial=True)
        assert counts == {"train": (4, 4), "val": (2, 2), "test": (2, 2)}


# Downloads


def test_download_fetches_the_archive_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    archive = tar_of(tmp_path / "made.tar.gz", aircraft_files(per_class=1)).read_bytes()

    def fetch(url: str, path: Path, check: Callable[[Path], None], progress: Callable[[int], object]) -> None:
        asked.append(url)
        part = path.with_name("part")
        part.parent.mkdir(exist_ok=True)
        part.write_bytes(archive)
        progress(5 << 20)
        check(part)
        part.rename(path)

    told: list[tuple[int, int]] = []

    def tell(done: int, total: int) -> None:
        told.append((done, total))

    monkeypatch.setattr(preparation, "fetch_url", fetch)
    home, out = tmp_path / "downloads", tmp_path / "out"
    with pytest.raises(FrnError, match=r"cannot be downloaded \(its MD5 checksum is wrong\)"):
        prepare("aircraft", [home], out, download=True, unofficial=True)
    assert not (home / "fgvc-aircraft-2013b.tar.gz").exists()
    checksums = {"fgvc-aircraft-2013b.tar.gz": hashlib.md5(archive).hexdigest()}
    monkeypatch.setitem(BENCHMARKS, "aircraft", replace(BENCHMARKS["aircraft"], checksums=checksums))
    for name in ("out", "again"):
        counts = prepare("aircraft", [home], tmp_path / name, download=True, unofficial=True, progress=tell)
        assert counts == {"train": (50, 50), "val": (25, 25), "test": (25, 25)}
    assert len(asked) == 2
    assert told[0] == (5, 2625)
    with pytest.raises(FrnError, match=r"cub-raw cannot be downloaded with --download \(aircraft, cifar-fs can\)"):
        prepare("cub-raw", [home], tmp_path / "cub", download=True)
    with pytest.raises(FrnError, match="pass that folder as the only --source"):
        prepare("cifar-fs", [home / "fgvc-aircraft-2013b.tar.gz"], tmp_path / "cifar", download=True)
    assert len(asked) == 2


# The command


def test_prepare_lists_every_benchmark_and_gives_one_line_errors(birds: Path, tmp_path: Path) -> None:
    shown = frn("data", "prepare", "--help", env={"COLUMNS": "300"})
    words = set(shown.stdout.replace(",", " ").split())
    assert {*BENCHMARKS, "folder", *BENCHMARKS["cub-raw"].splits} <= words
    place = ["--source", str(birds), "--out", str(tmp_path / "out")]
    done = frn("data", "prepare", "cub-raw", "--split", "all", "--unofficial", *place)
    assert (done.exit_code, done.stdout.split()[:5]) == (0, ["test", "40", "classes", "40", "images"])
    wrong = frn("data", "prepare", "cub", *place)
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert wrong.stderr == "error: unknown data set 'cub'. Did you mean 'cub-cropped' or 'cub-raw'?\n"
