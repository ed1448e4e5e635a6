"""Habits of a shell: help by topic, exit codes, JSON by schema, lists on stdin, defaults, completion, no colours."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from frn.cli.main import app
from frn.cli.schemas import SCHEMAS
from frn.cli.topics import TOPICS
from frn.zoo import assets_folder

MOTHS, QUERIES = assets_folder() / "samples" / "moths", assets_folder() / "samples" / "queries"
PHOTO = QUERIES / "eyed footman 6.jpg"
ROOT = Path(__file__).parents[3]


def frn(*words: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], input=stdin, catch_exceptions=False)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder and a configuration of its own: no frn.toml of the user's."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def violations(value: Any, schema: dict[str, Any], where: str = "$") -> Iterator[str]:
    """Where a value is not of a schema; of JSON Schema only what `frn.cli.schemas` uses."""
    if "oneOf" in schema:
        if not any(not list(violations(value, each)) for each in schema["oneOf"]):
            yield f"{where}: is none of the alternatives"
        return
    kinds = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
        "array": list,
        "object": dict,
    }
    allowed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    is_bool = isinstance(value, bool)
    if not any(isinstance(value, kinds[kind]) and is_bool == (kind == "boolean") for kind in allowed):  # type: ignore[arg-type]
        yield f"{where}: {value!r} is no {allowed}"
    elif isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{where}: {value} is out of range"
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from violations(entry, schema["items"], f"{where}[{index}]")
    elif isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        yield from (f"{where}: lacks {name}" for name in schema.get("required", []) if name not in value)
        for name, entry in value.items():
            if name in properties:
                yield from violations(entry, properties[name], f"{where}.{name}")
            elif others is False:
                yield f"{where}: has {name}, which is not described"
            elif others:
                yield from violations(entry, others, f"{where}.{name}")


def test_a_wrong_value_is_seen_by_the_schemas() -> None:
    right = json.loads(frn("cache", "--json").stdout)
    assert list(violations(right, SCHEMAS["cache"])) == []
    for wrong in ({**right, "more": 1}, {**right, "limit": -1}, {**right, "limit": True}, {"folder": "x"}):
        assert list(violations(wrong, SCHEMAS["cache"]))


def test_json_is_what_its_schema_says(moths: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.jpg"
    text.write_text("no photo")
    labelled = tmp_path / "labelled" / "eyed footman"
    labelled.mkdir(parents=True)
    (labelled / "1.jpg").write_bytes(PHOTO.read_bytes())
    calls: dict[str, tuple[object, ...]] = {
        "classify": (MOTHS, PHOTO, text),
        "enroll": (MOTHS, "--out", tmp_path / "m.frn.json"),
        "explain": (MOTHS, PHOTO, "--out", tmp_path / "m.png"),
        "score": (MOTHS, labelled.parent),
        "models": (),
        "eval": ("conv4", "--data", moths, "--episodes", 10, "--shot", 1, "--unknown", "--way", 2, "--queries", 2),
        "data": ("check", moths, "--shot", 5, "--queries", 7),
        "cache": (),
    }
    for command, words in calls.items():
        result = frn(command, *words, "--json")
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        assert lines, (command, result.stderr)
        for line in lines:
            assert list(violations(line, SCHEMAS[command])) == [], command
    assert SCHEMAS.keys() - calls.keys() == {"train", "finetune"}, "their results are compared where they are trained"


def test_help_knows_every_command_and_topic() -> None:
    for name, topic in TOPICS.items():
        assert frn("help", name).stdout == f"{topic.title}\n\n{topic.text}\n"
    assert "--threshold" in frn("help", "classify").stdout
    assert "--queries" in frn("help", "data", "check").stdout
    assert "exit-codes" in frn("help").stdout
    assert json.loads(frn("help", "json", "eval").stdout) == SCHEMAS["eval"]
    assert frn("help", "nothing").exit_code == 1


def test_the_page_is_the_topics() -> None:
    page = (ROOT / "docs" / "shell.md").read_text(encoding="utf-8")
    assert [page.index(f"## {topic.title}\n\n{topic.text}\n") for topic in TOPICS.values()] == [
        match.start() for match in re.finditer("^## ", page, re.MULTILINE)
    ]


def test_exit_codes_are_those_of_the_table(tmp_path: Path) -> None:
    text = tmp_path / "text.jpg"
    text.write_text("no photo")
    stated = [int(code) for code in re.findall(r"^\| (\d+) \|", TOPICS["exit-codes"].text, re.MULTILINE)]
    assert stated == [0, 1, 2, 130]  # 130: tests/frn/cli/test_commands.py
    assert frn("classify", MOTHS, PHOTO).exit_code == 0
    assert frn("classify", MOTHS, PHOTO, text).exit_code == 1
    assert frn("classify", MOTHS, PHOTO, "--top", 0).exit_code == 2
    assert frn("nothing").exit_code == 2


def test_photos_are_listed_on_stdin(tmp_path: Path) -> None:
    odd = tmp_path / "new\nline.jpg"
    odd.write_bytes(PHOTO.read_bytes())
    by_lines = frn("classify", MOTHS, "-", "--json", stdin=os.fsencode(PHOTO) + b"\n\n")
    assert [json.loads(line)["image"] for line in by_lines.stdout.splitlines()] == [str(PHOTO)]
    by_nul = frn("classify", MOTHS, PHOTO, "-", "--json", stdin=os.fsencode(odd) + b"\0" + os.fsencode(PHOTO) + b"\0")
    assert [json.loads(line)["image"] for line in by_nul.stdout.splitlines()] == [str(PHOTO), str(odd), str(PHOTO)]
    nothing = frn("classify", MOTHS, "-", stdin=b"\n")
    assert (nothing.exit_code, nothing.stderr) == (1, "error: -: stdin lists no photos. It takes one to a line.\n")


def test_defaults_come_from_frn_toml_the_nearer_first(elsewhere: Path, tmp_path: Path) -> None:
    far = tmp_path / "config" / "frn" / "frn.toml"
    far.parent.mkdir(parents=True)
    far.write_text('[classify]\nmodel = "conv4"\njson = true\n')
    (elsewhere / "frn.toml").write_text('[classify]\nmodel = "resnet12-small"\ntop = 1\n\n[data.check]\nshot = 1\n')
    result = frn("classify", MOTHS, PHOTO)
    assert json.loads(result.stdout)["label"] == "eyed footman"
    assert result.stderr == (
        f"defaults of {far}: --model conv4 --json\ndefaults of frn.toml: --model resnet12-small --top 1\n"
    )
    typed = frn("classify", MOTHS, PHOTO, "--model", "nomodel")
    assert "error: nomodel: there is no such model" in typed.stderr
    far.unlink()
    assert len(frn("classify", MOTHS, PHOTO).stdout.splitlines()) == 1  # --top 1
    assert "defaults of frn.toml: check --shot 1\n" in frn("data", "check", MOTHS).stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[clasify]\ntop = 1\n", "frn.toml: it has 'clasify', but `frn ` knows: bench, "),
        ("[classify]\ntpo = 1\n", "frn.toml: [classify] has 'tpo', but `frn classify ` knows: "),
        ("top = 1\n", "frn.toml: it has 'top'"),
        ("[classify\n", "frn.toml: is not TOML"),
    ],
)
def test_defaults_for_what_there_is_none_of_are_refused(elsewhere: Path, text: str, reason: str) -> None:
    (elsewhere / "frn.toml").write_text(text)
    result = frn("classify", MOTHS, PHOTO)
    assert result.exit_code == 1
    assert reason in result.stderr


@pytest.mark.parametrize(
    ("shell", "typed", "expected"),
    [
        ("bash", "frn classify --model re", "resnet12-small"),
        ("zsh", "frn cla", "classify"),
        ("fish", "frn train cifar-fs-conv4-s", "cifar-fs-conv4-short"),
    ],
)
def test_words_are_completed(shell: str, typed: str, expected: str) -> None:
    words = typed.split()
    variables = {
        "_FRN_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": typed,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    command = [sys.executable, "-c", "import sys; sys.argv = ['frn']; from frn.__main__ import run; run()"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **variables})
    assert expected in result.stdout, result.stderr


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    colour = re.compile(r"\x1b\[[\d;]*3[0-7]")
    assert "\x1b" not in frn("classify", MOTHS, PHOTO).stdout
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert colour.search(frn("classify", MOTHS, PHOTO).stdout)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour.search(frn("classify", MOTHS, PHOTO).stdout)
