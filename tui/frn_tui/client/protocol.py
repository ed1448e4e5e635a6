"""What the app asks its engine and what the engine answers: one JSON object per line, over pipes.

The app asks `{"id": 7, "op": "embed", ...}`: a `Request` below, or of `file_requests`. The engine answers with any
number of events for that id, `{"id": 7, "event": "progress", ...}`, and one end: `{"id": 7, "end": "done",
...}` with what the request's type names, `{"id": 7, "end": "failed", "reason": ..., "code": ...}` or `{"id": 7,
"end": "cancelled"}`. Without an id the engine says `{"event": "hello", "protocol": 1, "pid": ...}` once and
`{"event": "alive"}` every second.
`{"op": "cancel", "target": 7}` cancels.

Two worker queues run side by side, so that a preview does not wait behind an embedding. Each serves in order; a
cancelled request that waits is dropped at once.

Paths are text as Python's `os.fsdecode` gives it (names that are not UTF-8 have lone surrogates, which JSON escapes).
Feature maps never cross: images are named by the hash of their bytes (`key`).
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, NotRequired, Protocol, TypedDict, TypeVar, dataclass_transform

from frn_tui.client.serialization import StateJson
from frn_tui.terminal.modes import Mode

PROTOCOL_VERSION = 1
INTERNAL, EXISTS, OPEN_ELSEWHERE = "internal", "exists", "open_elsewhere"
"""Codes of failures: a bug; a file is there already; a project is open in another app."""
MAPPED = 12
"""Classes of an answer that come with an error map: the likeliest."""

Queue = Literal["files", "compute"]
Look = Literal["photo", "blend", "map"]
"""A photo as it is, under the colours of an error map, or the map alone."""
Result = TypeVar("Result", covariant=True)
OnEvent = Callable[[dict[str, Any]], None]

REQUESTS: dict[str, type["Request[Any]"]] = {}
"""By operation."""


@dataclass_transform(frozen_default=True)
class Request(Generic[Result]):
    """Something the engine can be asked, a frozen dataclass; `Result` is what its end holds."""

    op: ClassVar[str]
    queue: ClassVar[Queue]

    def __init_subclass__(cls, *, op: str, queue: Queue) -> None:
        cls.op, cls.queue = op, queue
        REQUESTS[op] = dataclass(frozen=True)(cls)


class Engine(Protocol):
    """Whoever answers requests: the client, or a test's own."""

    def call(self, request: Request[Result], on_event: OnEvent | None = None) -> Awaitable[Result]:
        """Answer a request, or raise its failure (`EngineError`)."""


class Nothing(TypedDict):
    """No result."""


class Model(TypedDict):
    """The open model."""

    model: str
    sha256: str
    side: int
    """Side of the crop that the network sees, in pixels."""
    grid: list[int]
    """h, w of a feature map."""
    d: int
    device: str


MIRROR = "+mirror"
"""Behind a model's name: it looks at a photo's mirror image as well."""


class OpenModel(Request[Model], op="open_model", queue="compute"):
    """Open a model in place of the last one."""

    model: str
    """A shipped name, or the path of a features.onnx; `MIRROR` may follow."""


class EmbedImages(Request[Nothing], op="embed", queue="compute"):
    """Compute feature maps.

    Events: `embedded` per file, in order, {path, key, size, mtime_ns} or {path, reason}; `progress` {done, total}.
    """

    paths: list[str]


class ClassReport(TypedDict):
    """What the engine knows of an enrolled class."""

    id: int
    explained: dict[str, float]
    """What the rest of the class explains of each example, by key; empty for a single example."""
    rank: dict[str, int]
    """Place of the own class among all for each left-out example: 0 where it would be named rightly."""
    rival: dict[str, int]
    """Id of the other class that explains a left-out example best, where one does better than its own."""
    near: dict[str, str]
    """Examples that look almost the same as another (any class): by key, the other's key."""


class ClassReports(TypedDict):
    """The enrolled classes."""

    reports: list[ClassReport]
    threshold: float
    """In effect: the state's own, or the calibrated one."""
    calibrated: float
    missing: list[str]
    """Keys whose feature maps the engine does not have: embed their files, then ask again."""


class SetClasses(Request[ClassReports], op="classes", queue="compute"):
    """Enroll these classes; the engine answers for them from now on."""

    state: StateJson


class ClassScore(TypedDict):
    """What one class says of a query."""

    id: int
    probability: float
    error: float
    explained: float


class Answer(TypedDict):
    """An answer to a query."""

    path: str
    key: NotRequired[str]
    size: NotRequired[int]
    mtime_ns: NotRequired[int]
    scores: NotRequired[list[ClassScore]]
    """The likeliest first."""
    maps: NotRequired[dict[str, list[list[float]]]]
    """Error map (h, w) by class id, of the likeliest `MAPPED` classes; only where a single path was asked about."""
    nearest: NotRequired[str]
    """Key of the example, of the likeliest class, whose features are most like the photo's."""
    threshold: NotRequired[float]
    """Share that a class must explain of this photo."""
    unknown: NotRequired[bool]
    reason: NotRequired[str]
    """Why there is no answer."""


class AskClasses(Request[Nothing], op="query", queue="compute"):
    """Classify photos. Events: `answer` (`Answer`) per path, in order; `progress` {done, total}."""

    paths: list[str]


class Confusion(TypedDict):
    """How well the classes are separated."""

    ids: list[int]
    """Classes that have more than `shot` examples, in order of rows and columns."""
    counts: list[list[int]]
    """True class by named class."""
    accuracy: float
    """Share that got its class, in [0, 1]."""


class HideAndTest(Request[Confusion], op="hide_and_test", queue="compute"):
    """Enroll `shot` examples per class, drawn by chance (the same ones each time), and classify the others."""

    shot: int


class Heat(TypedDict):
    """An error map (h, w) of what the network sees of a photo, with the values of the first and the last colour."""

    map: list[list[float]]
    low: float
    high: float
    smooth: bool


class Picture(TypedDict):
    """A picture as cells of a terminal. Boxes are left, top, right, bottom in shares of the photo."""

    columns: int
    rows: int
    cells: str
    """Base64 of 7 bytes per cell, row by row: the character's place in `modes.CHARACTERS`, its ink, its ground.

    For pixels of Kitty it is base64 of their RGB in zlib's format, for Sixel a line of pieces per row of
    cells, with tabs between: see `frn_tui.terminal.sixel.Rows`.
    """
    pixels: list[int]
    """Width and height of what is drawn."""
    photo: list[int]
    """Width and height of the file's image, upright."""
    view: list[float]
    """The part of the photo that is shown."""
    seen: list[float]
    """The part that the network sees."""


class RenderPreview(Request[Picture], op="preview", queue="files"):
    """The whole frame of a photo, as large as it fits into so many cells."""

    path: str
    columns: int
    rows: int
    mode: Mode = "half"
    look: Look = "photo"
    heat: Heat | None = None
    """What to show over the photo unless `look` is the photo alone."""
    zoom: float = 1.0
    """2 shows half of the photo's width and height, about `centre`, if it is larger than the room then."""
    centre: list[float] = field(default_factory=lambda: [0.5, 0.5])
    """x and y in shares of the photo."""
    framed: bool = False
    """Draw a line about what the network sees; of pixels only, characters have it drawn over them."""
    cell: list[int] = field(default_factory=lambda: [1, 2])
    """Width and height of a cell; of pixels in pixels, of characters only their ratio counts."""
    colours: int = 256
    """That the terminal has for a picture of Sixel."""


class ProtocolError(Exception):
    """A line that is not a message, or a message that is not a request."""


def encode(message: object) -> bytes:
    """One message as a line. ASCII only, so lone surrogates survive and nothing in it ends the line."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """A line as a message; raises ProtocolError if it is not a JSON object."""
    try:
        message = json.loads(line)
    except ValueError as error:
        raise ProtocolError(f"no JSON: {line[:80]!r}") from error
    if not isinstance(message, dict):
        raise ProtocolError(f"no object: {line[:80]!r}")
    return message


def parse(message: Mapping[str, object]) -> Request[Any]:
    """The request that a message holds; raises ProtocolError if there is none such, or its arguments are others."""
    op = message.get("op")
    kind = REQUESTS.get(op) if isinstance(op, str) else None
    if kind is None:
        raise ProtocolError(f"there is no operation {op!r}")
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # every request is a dataclass
    try:
        return kind(**{name: message[name] for name in names if name in message})
    except TypeError as error:
        raise ProtocolError(f"{op}: {error}") from error
