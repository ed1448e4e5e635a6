"""A results file that is continued after the program was killed: no photo is repeated or missing."""

import json
import os
from pathlib import Path

import pytest

from frn.errors import FrnError
from frn.inference.results import ResultsFile


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
