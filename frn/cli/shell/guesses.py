"""Recognise command lines that follow the conventions of other programs, and suggest the right one."""

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
"""Command names used by other programs, mapped to the matching `frn` commands."""
FOR_FOLDERS = {
    "eval": "frn eval MODEL --data {}",
    "train": "frn finetune {} or frn train PRESET --data {}",
    "export": "frn export --out exported --classes {}",
}
"""Commands that accept a folder of photos only through an option, with the command line to suggest."""


def as_meant(words: list[str]) -> list[str]:
    """Return the command-line arguments, with file:// addresses replaced by paths.

    Raises:
        FrnError: if an argument is a web address, or a folder or file that the command accepts only through an option.
    """
    if any("://" in word for word in words):
        from urllib.parse import urlsplit
        from urllib.request import url2pathname

        words = [url2pathname(urlsplit(word).path) if word.startswith("file://") else word for word in words]
        if web := [word for word in words if word.startswith(("http://", "https://"))]:
            raise FrnError(f"{web[0]}: frn only reads local files. Download it first, then pass the file.")
    command, first = [*words, "", ""][:2]
    if command in FOR_FOLDERS and first and Path(first).is_dir() and not any(Path(first).glob("*.safetensors")):
        told = FOR_FOLDERS[command].replace("{}", shlex.quote(first))
        raise FrnError(
            f"{first}: is a folder of photos, which `frn {command}` does not accept here. Did you mean: {told}"
        )
    after = words[words.index("--csv") + 1 :] if command == "classify" and "--csv" in words else []
    if after and after[0].lower().endswith(".csv"):
        raise FrnError(f"--csv prints to stdout. To write a file: --csv > {shlex.quote(after[0])}")
    return words
