"""Real-world folders: names in two Unicode forms, alternative split names, photos one level deeper."""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from frn.data.folders import find_splits, scan
from frn.errors import FrnError
from frn.projects.class_files import class_files
from frn.projects.names import loose, match_names
from frn.projects.session import Session, Support, build_state
from tests.commands import frn

NFC, NFD = unicodedata.normalize("NFC", "Épervier"), unicodedata.normalize("NFD", "Épervier")


def photos(folder: Path, count: int = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        pixels = np.random.default_rng([number, *folder.name.encode()]).integers(0, 256, (24, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


def test_names_match_in_both_unicode_forms() -> None:
    state, _ = build_state([(NFD, [Support(Path("a"), "1", 0, 0)])])
    assert [entry.name for entry in state.classes] == [NFC]
    assert state.named(NFD) is state.named(NFC) is not None
    session = Session(state)
    with pytest.raises(FrnError, match="already"):
        session.create(NFD)


@pytest.mark.parametrize("names", [(NFC, NFD), ("jay", " jay")])
def test_folders_that_differ_only_in_encoding_or_whitespace_are_one_class(tmp_path: Path, names: Sequence[str]) -> None:
    for name in names:
        photos(tmp_path / name)
    members = class_files(tmp_path).members
    assert [(name, len({path.parent for path in paths})) for name, paths in members.items()] == [(names[0], 2)]


def test_classes_whose_names_look_alike_are_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("Jay", "jay", "wren"):
        photos(tmp_path / name)
    for command in (("classify", tmp_path, tmp_path / "Jay" / "0.png"), ("enroll", tmp_path, "--out", "x.frn.json")):
        told = frn(*command, "--model", "conv4")
        assert told.stderr.count("'Jay' and 'jay' are different classes, but their names look alike") == 1
        assert "wren" not in told.stderr


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("İstanbul", "istanbul"),
        ("ISPARTA", "ısparta"),
        ("Straße", "STRASSE"),
        ("👩‍🔬", "👩🔬"),
        ("❤️ heart", "❤ heart"),
        ("jay.", "jay"),
        ("ivory\u2010gull", "Ivory gull"),
        ("co\u00adal", "coal"),
        ("Ｆｉｎｃｈ", "finch"),
    ],
)
def test_names_that_look_alike_match(one: str, other: str) -> None:
    assert match_names([other], [one, "another"])[0] == {other: one}


@pytest.mark.parametrize(("one", "other"), [("1.0", "10"), ("C++", "C"), ("é", "e"), ("Œuf", "oeuf"), ("①", "2")])
def test_different_names_do_not_match(one: str, other: str) -> None:
    assert match_names([other], [one])[0] == {}


@pytest.mark.parametrize("given", ["ivory gull", "Ivory_Gull", "IVORY-GULL", "ivorygull"])
def test_names_match_loosely_and_the_match_is_reported(given: str) -> None:
    found, notes = match_names([given], ["Ivory Gull", "jay"])
    assert found == {given: "Ivory Gull"}
    assert notes == [f"{given!r} is matched to the class 'Ivory Gull'"]


def test_an_exact_name_takes_precedence_and_others_match_the_nearest() -> None:
    found, notes = match_names(["jay", "JAY", "magpi"], ["jay", "magpie"])
    assert found == {"jay": "jay"}
    assert notes == [
        "'JAY' is not a class; the nearest name is 'jay'",
        "'magpi' is not a class; the nearest name is 'magpie'",
    ]
    assert match_names(["a b"], ["AB", "a-b"])[0] == {}, "two classes are called so"
    assert loose("Straße 1") == loose("STRASSE_1")


def test_score_matches_names_in_any_form_and_reports_the_match(tmp_path: Path) -> None:
    classes, labelled = tmp_path / "classes", tmp_path / "labelled"
    for name in ("Ivory Gull", NFC, "jay"):
        photos(classes / name, 2)
    for source, name in (("Ivory Gull", "ivory_gull"), (NFC, NFD), ("jay", "jya")):
        photos(labelled / name).joinpath("0.png").unlink()
        Image.open(classes / source / "0.png").rotate(90).save(labelled / name / "1.png")
    told = frn("score", classes, labelled, "--model", "conv4", "--json")
    assert told.exit_code == 0, told.output
    assert '"photos": 2' in told.stdout
    assert "'ivory_gull' is matched to the class 'Ivory Gull'" in told.stderr
    assert "'jya' is not a class; the nearest name is 'jay'" in told.stderr
    assert "the folder has no photo of the class 'jay'" in told.stderr


@pytest.mark.parametrize(
    "names",
    [
        ("Train", "Validation", "testing"),
        ("training", "valid", "test"),
        ("trn", "vld", "tst"),
        ("TrainingSet", "ValidationSet", "TestSet"),
        ("00_train", "01_val", "02_test"),
        ("train2017", "val2017", "test2017"),
        ("meta-train", "meta-val", "meta-test"),
        ("images_train", "dev", "tests"),
    ],
)
def test_splits_are_found_by_alternative_names_and_are_not_classes(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in (*names, "unlabelled"):
        photos(tmp_path / name / "jay")
    assert list(find_splits(tmp_path).items()) == [
        (split, tmp_path / name) for split, name in zip(("train", "val", "test"), names, strict=True)
    ]
    with pytest.raises(FrnError, match="contains the splits of a data set, not classes") as told:
        scan(tmp_path)
    assert "unlabelled" not in str(told.value)


def test_plain_split_name_takes_precedence_and_classes_are_not_splits(tmp_path: Path) -> None:
    for name in ("train", "train_set"):
        photos(tmp_path / "both" / name / "jay")
    assert find_splits(tmp_path / "both") == {"train": tmp_path / "both" / "train"}
    for name in ("steam train", "train 1", "train 2", "val set"):
        photos(tmp_path / "classes" / name)
    assert find_splits(tmp_path / "classes") == {}
    assert len(scan(tmp_path / "classes").names) == 4


def test_two_folders_for_the_same_split_are_refused(tmp_path: Path) -> None:
    for split in ("val", "valid"):
        photos(tmp_path / split / "jay")
    with pytest.raises(FrnError, match="both val/ and valid/ are names of the split 'val'"):
        find_splits(tmp_path)


@pytest.mark.parametrize("name", ["__MACOSX", "@eaDir", "#recycle", ".thumbnails", "$RECYCLE.BIN"])
def test_system_folders_are_not_classes(tmp_path: Path, name: str) -> None:
    photos(tmp_path / "jay")
    photos(tmp_path / name / "jay")
    photos(tmp_path / "jay" / name)
    found = scan(tmp_path)
    assert found.names == ("jay",)
    assert not found.skipped


def test_a_folder_marked_as_a_cache_is_not_a_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos(tmp_path / "jay", 2)
    monkeypatch.setenv("FRN_CACHE", str(tmp_path / "cache"))
    asked = tmp_path / "jay" / "0.png"
    for _ in range(2):  # the first call writes the cache next to the class
        told = frn("classify", tmp_path, asked, "--model", "conv4", "--json")
        assert told.exit_code == 0, told.stderr
    assert (tmp_path / "cache" / "CACHEDIR.TAG").exists()
    assert scan(tmp_path).names == ("jay",)


def test_a_split_has_one_folder_per_class(tmp_path: Path) -> None:
    for name in ("data/images/jay", "data/images/wren/2024"):
        photos(tmp_path / "nested" / name)
    assert scan(tmp_path / "nested").names == ("jay", "wren")
    assert scan(tmp_path / "nested").files == (("0.png",), ("2024/0.png",))
    for name in ("corvus/corax", "corvus/corone", "parus/major"):
        photos(tmp_path / "deep" / name)
    with pytest.raises(FrnError, match=r"two levels of folders \(2 and 3\). A split of a data set has one folder per"):
        scan(tmp_path / "deep")
    photos(tmp_path / "data" / "train" / "jay")
    photos(tmp_path / "data" / "val" / "wren")
    with pytest.raises(FrnError, match=r"contains the splits of a data set, not classes. Choose one of them"):
        scan(tmp_path / "data")
    (tmp_path / "raw" / "jay").mkdir(parents=True)
    (tmp_path / "raw" / "jay" / "x.NEF").write_bytes(b"II*\0")
    with pytest.raises(FrnError, match=r"The first of 2 skipped entries: .*camera raw file") as told:
        scan(tmp_path / "raw")
    assert "remove" not in str(told.value)


def test_a_class_of_one_photo_is_too_small(tmp_path: Path) -> None:
    for name in ("jay", "wren"):
        photos(tmp_path / name, 2)
    assert frn("data", "check", tmp_path).exit_code == 0
    photos(tmp_path / "owl", 1)
    told = frn("data", "check", tmp_path)
    assert told.exit_code == 1
    assert "owl has 1 images, but an episode needs 2" in told.stderr
