"""What the app and its engine say to each other: one JSON object per line, over pipes.

The app asks `{"id": 7, "op": "embed", ...}`. The engine answers with any number of events for that id,
`{"id": 7, "event": "progress", ...}`, and one end: `{"id": 7, "end": "done", ...}`, `{"id": 7, "end": "failed",
"reason": ...}` or `{"id": 7, "end": "cancelled"}`. Without an id the engine says `{"event": "hello", "protocol": 1,
"pid": ...}` once and `{"event": "alive"}` every second. `{"op": "cancel", "target": 7}` cancels.

Two worker queues run side by side: files (`QUEUES[op] == "files"`) and arithmetic (`"compute"`), so that a preview
does not wait behind an embedding. Each queue serves in order; a cancelled request that waits is dropped at once.

Paths are text as Python's `os.fsdecode` gives it (names that are not UTF-8 have lone surrogates, which JSON escapes).
Feature maps never cross: images are named by the hash of their bytes (`key`). Standard library only.
"""

import json
from typing import Literal, NotRequired, TypedDict

VERSION = 1

Queue = Literal["files", "compute"]

QUEUES: dict[str, Queue] = {
    "list": "files",
    "scan": "files",
    "preview": "files",
    "load": "files",
    "save": "files",
    "holder": "files",
    "lock": "files",
    "journal": "files",
    "recover": "files",
    "write": "files",
    "open_model": "compute",
    "embed": "compute",
    "classes": "compute",
    "query": "compute",
    "hide_and_test": "compute",
    "export": "compute",
}


class SupportJson(TypedDict):
    """An example photo (`session.Support`)."""

    path: str
    key: str
    size: int
    mtime_ns: int


class ClassJson(TypedDict):
    """A class (`session.ClassEntry`)."""

    id: int
    name: str
    supports: list[SupportJson]


class StateJson(TypedDict):
    """All classes (`session.State`)."""

    classes: list[ClassJson]
    threshold: float | None
    next_id: int


class ModelDone(TypedDict):
    """End of `open_model` {model}: a shipped name, or the path of a features.onnx."""

    model: str
    sha256: str
    side: int
    """Of the crop that the network sees, in pixels."""
    grid: list[int]
    """h, w of a feature map."""
    d: int
    device: str


class Entry(TypedDict):
    """Something in a folder."""

    name: str
    kind: Literal["folder", "image", "project", "model"]


class ListDone(TypedDict):
    """End of `list` {path}: what a picker shows of a folder. Folders first, each kind by name; hidden ones left out."""

    path: str
    """Absolute, `~` and `..` resolved."""
    parent: str
    entries: list[Entry]


class ScanDone(TypedDict):
    """End of `scan` {path, recursive}. Events on the way: `counted` {files}."""

    kind: Literal["image", "folder", "classes", "project", "nothing"]
    """One image; a folder of images; a folder of class folders; a project; none of these (then `reason` says why)."""
    files: list[str]
    """Of an image or a folder of images."""
    classes: dict[str, list[str]]
    """Of a folder of class folders."""
    reason: NotRequired[str]


class PreviewDone(TypedDict):
    """End of `preview` {path, width, height, heat: {map, low, high, smooth} | null}.

    The crop that the network sees, scaled into width x height pixels, grey under the error's colours with `heat`.
    """

    width: int
    height: int
    rgb: str
    """Base64 of width * height * 3 bytes."""
    image_width: int
    """Of the file, upright."""
    image_height: int


class EmbedDone(TypedDict):
    """End of `embed` {paths}. Events on the way: `embedded` (`Embedded`) per file, `progress` {done, total}."""

    done: int
    broken: int


class Embedded(TypedDict):
    """A file's outcome: a key, or a reason why it cannot be used."""

    path: str
    key: NotRequired[str]
    size: NotRequired[int]
    mtime_ns: NotRequired[int]
    reason: NotRequired[str]


class ClassReport(TypedDict):
    """What the engine knows of an enrolled class."""

    id: int
    explained: dict[str, float]
    """What the rest of the class explains of each example, by key; empty for a single example."""
    rank: dict[str, int]
    """Place of the own class among all for each left-out example: 0 where it would be named rightly."""
    near: dict[str, str]
    """Examples that look almost the same as another (any class): by key, the other's key."""


class ClassesDone(TypedDict):
    """End of `classes` {state}: the engine now answers for these classes."""

    reports: list[ClassReport]
    threshold: float
    """In effect: the state's own, or the calibrated one."""
    calibrated: float
    missing: list[str]
    """Keys whose feature maps the engine does not have: embed their files, then ask again."""


class ClassScore(TypedDict):
    """What one class says of a query."""

    id: int
    probability: float
    error: float
    explained: float


class Answer(TypedDict):
    """An answer to a query; the event `answer` of `query`, one per path, in order."""

    path: str
    key: NotRequired[str]
    size: NotRequired[int]
    mtime_ns: NotRequired[int]
    scores: NotRequired[list[ClassScore]]
    """The likeliest first."""
    maps: NotRequired[dict[str, list[list[float]]]]
    """Error map (h, w) by class id, of the likeliest `MAPPED` classes; only where a single path was asked about."""
    unknown: NotRequired[bool]
    seconds: NotRequired[float]
    reason: NotRequired[str]
    """Why there is no answer."""


class QueryDone(TypedDict):
    """End of `query` {paths}. Events on the way: `answer` (`Answer`), `progress` {done, total}."""

    done: int
    broken: int


class ConfusionDone(TypedDict):
    """End of `hide_and_test` {shot, seed}: `shot` examples per class enrolled, the others asked about."""

    ids: list[int]
    """Classes that have more than `shot` examples, in order of rows and columns."""
    counts: list[list[int]]
    """True class by named class."""
    accuracy: float
    """Share that got its class, in [0, 1]."""
    wrong: list[tuple[str, int, int]]
    """Key, true id and named id of each mistake."""


class LoadDone(TypedDict):
    """End of `load` {path}."""

    state: StateJson
    model: str
    """As `open_model` takes it."""
    sha256: str


class SaveDone(TypedDict):
    """End of `save` {path, state, replace}: the project is on disk."""

    path: str


class HolderDone(TypedDict):
    """End of `holder` {path}. `lock` {path | null} makes the project this app's."""

    holder: int | None
    """Process of another app that the project is open in."""


ELSEWHERE = "open in another frn-tui"
"""In the reason why a project is not saved."""
MAPPED = 12
NEAR = 0.92
"""Cosine of two feature maps from which on images count as near duplicates.

Measured with the shipped resnet12-small, pairs within a class: of 622,500 in CIFAR-FS's test classes (250 photos each)
55 reach it; of the 40 most alike some 30 are by eye the same photo twice, the others the same thing again. Of 311,250
in Tiny-ImageNet's validation classes none does (the most: 0.884). Copies of the latter that reach it: enlarged 1.5 to
2 times, JPEG of quality 75, 20 % brighter: all; shrunk to three quarters: 99 %; JPEG of quality 50: 65 %; cropped to
97, 95 and 90 % of each side: 89, 80 and 36 %; shrunk to half: 45 %; mirrored: 4 %. With conv4 they are close to these.
"""


class ProtocolError(Exception):
    """A line that is no message."""


def encode(message: object) -> bytes:
    """One message as a line. ASCII only, so lone surrogates survive and nothing in it ends the line."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, object]:
    """A line as a message.

    Raises:
        ProtocolError: if it is no JSON object.
    """
    try:
        message = json.loads(line)
    except ValueError as error:
        raise ProtocolError(f"no JSON: {line[:80]!r}") from error
    if not isinstance(message, dict):
        raise ProtocolError(f"no object: {line[:80]!r}")
    return message
