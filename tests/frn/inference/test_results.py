"""A results file that is continued after the program was killed: no photo is repeated or missing."""

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from frn.errors import FrnError
from frn.inference.records import (
    Answer,
    Enrolled,
    Explanation,
    Groups,
    Prediction,
    Score,
    Unreadable,
    answer_of,
    rounded,
)
from frn.inference.results import ResultsFile, run_digest
from frn.projects.session import Find, Support, build_state
from frn.ridge.parameters import HeadParameters


def add(file: ResultsFile, name: str) -> None:
    prediction = Prediction({"x": 1.0}, {"x": 0.5}, {"x": 0.5}, 0.9, False)
    file.add(answer_of(name, prediction), f"key of {name}")


def write(path: Path, names: str, *, resume: bool = False, run: str = "a") -> None:
    with ResultsFile(path, run, resume=resume) as file:
        for name in names:
            if name not in file.done:
                add(file, name)


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
            add(results, str(number))
            assert path.read_bytes().count(b"\n") == number + 1


def test_lines_carry_the_content_key_and_can_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with ResultsFile(path, "a") as file:
        add(file, "good")
        file.add(Unreadable(image="b\udcff", error="unreadable"), None)
    with ResultsFile(path, "a", resume=True) as file:
        assert file.done == {"good": "key of good", "b\udcff": ""}
        file.forget({"b\udcff"})
        assert file.done == {"good": "key of good"}
        add(file, "new")
    assert images(path) == "goodnew"
    with pytest.raises(FrnError, match="already exists"):
        ResultsFile(path, "a")
    with ResultsFile(path, "a", replace=True) as file:
        file.add(answer_of("x", Prediction({"x": 1.0}, {"x": 0.5}, {"x": 0.5}, 0.9, False)), None)
    (line,) = map(json.loads, path.read_text().splitlines())
    assert line["image"] == "x"
    assert "key" not in line


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


def test_an_empty_file_is_no_obstacle_and_missing_folders_are_created(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").touch()
    for path in (tmp_path / "r.jsonl", tmp_path / "new" / "folder" / "r.jsonl"):
        write(path, "ab")
        assert images(path) == "ab"
        assert [entry.name for entry in path.parent.iterdir() if entry.is_file()] == ["r.jsonl"]


def test_digest_depends_on_model_classes_order_head_and_threshold() -> None:
    def digest(
        model: str = "m",
        classes: tuple[str, ...] = ("ab", "c"),
        threshold: float = 0.5,
        alpha: float = 0.0,
        search: Find = "none",
    ) -> str:
        photos = [(name, [Support(Path(key), key, 1, 1) for key in name]) for name in classes]
        classifier: Any = SimpleNamespace(
            extractor=SimpleNamespace(sha256=model),
            state=replace(build_state(photos)[0], search=search),
            threshold=threshold,
            head=HeadParameters(alpha, 0.0, 1.0),
            second=None,
        )
        return run_digest(classifier)

    others = [
        digest("n"),
        digest(alpha=1.0),
        digest(classes=("c", "ab")),
        digest(classes=("ab",)),
        digest(threshold=0.25),
        digest(search="one"),
        digest(search="all"),
    ]
    assert len({digest(), *others}) == 8


def test_table_in_the_docs_describes_every_field() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
    for kind in (Answer, Unreadable):
        fields = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"]
        rows = [f"| `{name}` | {field['description']} |" for name, field in fields.items() if "description" in field]
        assert len(rows) > 1
        assert [row for row in rows if row not in page] == []


def test_records_have_no_other_fields_and_no_share_above_one() -> None:
    _, definitions = msgspec.json.schema_components([Explanation, Score, Groups, Enrolled, Unreadable])
    assert all(each["additionalProperties"] is False for each in definitions.values())
    assert definitions["Answer"]["properties"]["probability"]["maximum"] == 1
    assert definitions["Enrolled"]["properties"]["skipped"]["minimum"] == 0


def test_numbers_are_rounded_to_six_decimals() -> None:
    third, rounded_third = {"x": 1 / 3}, 0.333333
    answer = answer_of("a", Prediction(third, third, third, 1 / 3, False))
    assert [answer.probability, answer.known, answer.explained] == [rounded_third] * 3
    assert answer.probabilities == answer.errors == rounded(third) == {"x": rounded_third}
