"""A results file that is continued after the program was killed: no photo is repeated or missing."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from frn.errors import FrnError
from frn.inference import results
from frn.inference.results import ResultsFile, run_digest
from frn.inference.session import Support, build_state


def write(path: Path, names: str, *, resume: bool = False, run: str = "a") -> None:
    with ResultsFile(path, run, resume=resume) as file:
        for name in names:
            if name not in file.done:
                file.add({"image": name, "label": "x"})


def images(path: Path) -> str:
    return "".join(json.loads(line)["image"] for line in path.read_text().splitlines())


def test_results_left_incomplete_by_a_kill_are_completed(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    write(whole, "abcdef")
    data = whole.read_bytes()
    for length in range(len(data)):
        cut = tmp_path / "cut.jsonl"
        cut.write_bytes(data[:length])
        write(cut, "abcdef", resume=True)
        assert cut.read_bytes() == data


def test_results_file_is_neither_overwritten_nor_mixed_with_other_runs(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write(path, "ab")
    with pytest.raises(FrnError, match=r"already exists\. Add --resume"):
        write(path, "cd")
    with pytest.raises(FrnError, match="line 1 was written with different classes, another model or another threshold"):
        write(path, "cd", resume=True, run="b")
    assert images(path) == "ab"
    for text in ("no answer\n", "a note without an end", "{}", '{"image": 5'):
        path.write_text(text)
        with pytest.raises(FrnError, match="line 1 was not written by"):
            write(path, "ab", resume=True)
        assert path.read_text() == text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_pipe_as_results_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(FrnError, match="is not a regular file"):
        write(tmp_path / "pipe.jsonl", "ab", resume=True)


def test_two_programs_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with ResultsFile(path, "a", resume=False), pytest.raises(FrnError, match="is writing it"):
        ResultsFile(path, "a", resume=True)


def test_line_is_written_as_soon_as_it_is_added(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with ResultsFile(path, "a", resume=False) as results:
        for number in range(3):
            results.add({"image": str(number)})
            assert path.read_bytes().count(b"\n") == number + 1


def test_results_file_is_replaced_on_request_but_a_photo_never(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("of others")
    with ResultsFile(path, "a", replace=True) as results:
        results.add({"image": "x"})
    assert path.read_text().startswith('{"image": "x"')
    path.write_bytes(b"\xff\xd8\xff\xe0 photo")
    for resume in (True, False):
        with pytest.raises(FrnError, match="is a photo"):
            ResultsFile(path, "a", resume=resume, replace=not resume)
    assert path.read_bytes() == b"\xff\xd8\xff\xe0 photo"


def test_failed_photos_are_listed_among_those_that_are_done(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with ResultsFile(path, "a") as file:
        file.add({"image": "good", "label": "x"})
        file.add({"image": "bad", "error": "unreadable"})
        assert (file.done, file.failed) == (set(), set())  # those of an earlier run
    with ResultsFile(path, "a", resume=True) as file:
        assert (file.done, file.failed) == ({"good", "bad"}, {"bad"})


def test_wrong_lines_are_reported_by_number_and_the_file_stays_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write(path, "ab")
    ours = path.read_text()
    for wrong, reason in (
        ('{"image": "c", "run": "b"}\n', "was written with different classes, another model or another threshold"),
        ('{"image": 5, "run": "a"}\n', "was not written by `frn classify`"),
        ('{"image": "c", "run": 5}\n', "was not written by `frn classify`"),
        ('{"label": "c", "run": "a"}\n', "was not written by `frn classify`"),
    ):
        path.write_text(ours + wrong)
        with pytest.raises(FrnError, match=f"r.jsonl: line 3 {reason}"):
            write(path, "abc", resume=True)
        assert path.read_text() == ours + wrong


def test_lines_are_read_up_to_64_mebibytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert results.MAX_LINE == 64 * 2**20
    path = tmp_path / "r.jsonl"
    write(path, "a")
    monkeypatch.setattr(results, "MAX_LINE", len(path.read_bytes()))
    write(path, "ab", resume=True)
    assert images(path) == "ab"


def test_an_empty_file_is_no_obstacle_and_missing_folders_are_created(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").touch()
    for path in (tmp_path / "r.jsonl", tmp_path / "new" / "folder" / "r.jsonl"):
        write(path, "ab")
        assert images(path) == "ab"
        assert [entry.name for entry in path.parent.iterdir() if entry.is_file()] == ["r.jsonl"]


def test_a_failed_write_says_how_to_continue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = MagicMock()
    full.write.side_effect = OSError(28, "No space left on device")
    path = tmp_path / "r.jsonl"
    with ResultsFile(path, "a") as file:
        file._file.close()
        monkeypatch.setattr(file, "_file", full)
        with pytest.raises(FrnError) as caught:
            file.add({"image": "a"})
    told = "cannot be written (No space left on device). Fix that and continue with --resume."
    assert str(caught.value) == f"{path}: {told}"
    write(path, "a")  # the lock was released


def test_digest_depends_on_model_classes_order_and_threshold() -> None:
    def digest(model: str = "m", classes: tuple[str, ...] = ("ab", "c"), threshold: float = 0.5) -> str:
        photos = [(name, [Support(Path(key), key, 1, 1) for key in name]) for name in classes]
        classifier: Any = SimpleNamespace(
            extractor=SimpleNamespace(sha256=model), state=build_state(photos)[0], threshold=threshold
        )
        return run_digest(classifier)

    assert digest() == "193cc05d8a83"
    others = [digest("n"), digest(classes=("c", "ab")), digest(classes=("ab",)), digest(threshold=0.25)]
    assert len({digest(), *others}) == 5
