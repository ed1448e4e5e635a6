"""Guess what a command line means that follows other programs, and suggest the right one."""

import shlex
from pathlib import Path

from frn.errors import FrnError

OTHER_NAMES = {
    **dict.fromkeys(
        ("predict", "infer", "inference", "label", "run", "identify", "recognize", "recognise", "tag"), "classify"
    ),
    **dict.fromkeys(("test", "evaluate", "benchmark"), "eval"),
    **dict.fromkeys(("fit", "learn", "add"), "enroll"),
    **dict.fromkeys(("fine-tune", "tune"), "finetune"),
    **dict.fromkeys(("validate", "accuracy"), "score"),
    **dict.fromkeys(("convert", "onnx"), "export"),
    **dict.fromkeys(("ui", "tui", "app", "gui"), "frn-tui"),
}
"""Command names of other programs, mapped to the matching commands."""
FOR_FOLDERS = {
    "eval": "frn eval MODEL --data {}",
    "train": "frn finetune {} or frn train PRESET --data {}",
    "export": "frn export --out exported --classes {}",
}
"""Commands that take a folder of photos as an option."""


def as_meant(words: list[str]) -> list[str]:
    """Return the words of a command line, with file:// addresses replaced by paths.

    Raises:
        FrnError: if a word is a web address, or a folder or file that the command takes as an option.
    """
    if any("://" in word for word in words):
        from urllib.parse import urlsplit
        from urllib.request import url2pathname

        words = [url2pathname(urlsplit(word).path) if word.startswith("file://") else word for word in words]
        if web := [word for word in words if word.startswith(("http://", "https://"))]:
            raise FrnError(f"{web[0]}: frn reads only files. Download it first, and pass the file.")
    command, first = [*words, "", ""][:2]
    if command in FOR_FOLDERS and first and Path(first).is_dir() and not any(Path(first).glob("*.safetensors")):
        told = FOR_FOLDERS[command].replace("{}", shlex.quote(first))
        raise FrnError(f"{first}: is a folder of photos, which `frn {command}` does not accept. Did you mean: {told}")
    after = words[words.index("--csv") + 1 :] if command == "classify" and "--csv" in words else []
    if after and after[0].lower().endswith(".csv"):
        raise FrnError(f"--csv prints to stdout. To write a file: --csv > {shlex.quote(after[0])}")
    return words
