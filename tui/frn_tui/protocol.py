"""What the app asks its engine and what the engine answers: one JSON object per line, over pipes.

The app asks `{"id": 7, "op": "embed", ...}`: a `Request` below. The engine answers with any number of events for that
id, `{"id": 7, "event": "progress", ...}`, and one end: `{"id": 7, "end": "done", ...}` with what the request's type
names, `{"id": 7, "end": "failed", "reason": ..., "code": ...}` or `{"id": 7, "end": "cancelled"}`. Without an id the
engine says `{"event": "hello", "protocol": 1, "pid": ...}` once and `{"event": "alive"}` every second.
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

from frn_tui.modes import Mode
from frn_tui.serialization import StateJson, SupportJson

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
    """Of the crop that the network sees, in pixels."""
    grid: list[int]
    """h, w of a feature map."""
    d: int
    device: str


MIRROR = "+mirror"
"""Behind a model's name: it looks at a photo's mirror image, too."""


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
    unknown: NotRequired[bool]
    reason: NotRequired[str]
    """Why there is no answer."""


class AskClasses(Request[Nothing], op="query", queue="compute"):
    """Classify photos. Events: `answer` (`Answer`) per path, in order; `progress` {done, total}."""

    paths: list[str]


class Confusion(TypedDict):
    """How well the classes are told apart."""

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

    Of pixels for Kitty it is base64 of their RGB in zlib's format, for Sixel a line of pieces per row of
    cells, with tabs between: see `frn_tui.sixel.Rows`.
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
    """2 shows half of the photo's width and height, about `centre`, where it is larger than the room then."""
    centre: list[float] = field(default_factory=lambda: [0.5, 0.5])
    """x and y in shares of the photo."""
    framed: bool = False
    """Draw a line about what the network sees; of pixels only, characters have it drawn over them."""
    cell: list[int] = field(default_factory=lambda: [1, 2])
    """Width and height of a cell; of pixels in pixels, of characters only their ratio counts."""
    colours: int = 256
    """That the terminal has for a picture of Sixel."""


class Entry(TypedDict):
    """Something in a folder."""

    name: str
    kind: Literal["folder", "image", "project", "bundle", "model"]


class Listing(TypedDict):
    """What a file picker shows of a folder. Folders first, each kind by name; hidden ones left out."""

    path: str
    """Absolute, `~` and `..` resolved."""
    parent: str
    entries: list[Entry]


class ListFolder(Request[Listing], op="list", queue="files"):
    """List a folder."""

    path: str


class Inside(TypedDict):
    """What is in a folder, at a glance."""

    folders: int
    photos: int
    """In it and below."""
    more: bool
    """Whether there are more than were counted."""
    classes: list[tuple[str, int]]
    """The first of its folders, and their photos."""


class LookInside(Request[Inside], op="inside", queue="files"):
    """Count what is in a folder."""

    path: str


class Found(TypedDict):
    """What a path holds."""

    kind: Literal["image", "folder", "classes", "project", "bundle", "nothing"]
    """One image; a folder of images; a folder of class folders; a project, or one with its photos in a zip; none of
    these (then `reason` says why)."""
    files: list[str]
    """Of an image or a folder of images."""
    classes: dict[str, list[str]]
    """Of a folder of class folders."""
    reason: NotRequired[str]


class ScanPath(Request[Found], op="scan", queue="files"):
    """Look at a path: a photo, a folder, a folder of class folders, a project."""

    path: str


class Loaded(TypedDict):
    """A project as it was read."""

    state: StateJson
    model: str
    """As `OpenModel` takes it."""
    sha256: str


class LoadProject(Request[Loaded], op="load", queue="files"):
    """Read a project file."""

    path: str


class SaveProject(Request[Nothing], op="save", queue="files"):
    """Write a project file. Fails with `EXISTS` or `OPEN_ELSEWHERE`."""

    path: str
    state: StateJson
    replace: bool = False


class ExportClasses(Request[Nothing], op="export", queue="compute"):
    """Write the whole classifier as ONNX, or the numbers of its classes as .npz. Fails with `EXISTS`."""

    path: str
    what: Literal["classifier", "arrays"] = "classifier"
    replace: bool = False


class MissingFiles(TypedDict):
    """Photos that are not where they were."""

    missing: list[str]


class FindMissing(Request[MissingFiles], op="missing", queue="files"):
    """Ask which of some files are not there."""

    paths: list[str]


class Relocated(TypedDict):
    """Photos that were found again, by key."""

    found: dict[str, SupportJson]


class RelocatePhotos(Request[Relocated], op="relocate", queue="files"):
    """Look for photos by their content, in a folder and all below it. Events: `progress` {done, total} of the found."""

    folder: str
    sizes: dict[str, int]
    """Bytes of each file, by its key: only files of such a size are read."""


class WriteBundle(Request[Nothing], op="bundle", queue="compute"):
    """Write a project with its photos into a new folder, or a .zip. Fails with `EXISTS`."""

    path: str
    state: StateJson
    replace: bool = False


class Unpacked(TypedDict):
    """The project of a bundle."""

    project: str


class UnpackBundle(Request[Unpacked], op="unpack", queue="files"):
    """Unpack a bundle into a new folder. Fails with `EXISTS`."""

    path: str
    folder: str


class SortedPhotos(TypedDict):
    """What came of sorting photos into folders."""

    places: dict[str, str]
    """By the paths that were given: where each lies now."""
    failed: list[tuple[str, str]]
    """Paths that could not be put anywhere, and why."""


class SortPhotos(Request[SortedPhotos], op="sort", queue="compute"):
    """Copy photos into a folder for each verdict, or move them. Events: `progress` {done, total}."""

    folder: str
    photos: list[tuple[str, str]]
    """Path and verdict of each."""
    move: bool = False


class WriteText(Request[Nothing], op="write", queue="files"):
    """Write results. Fails with `EXISTS`."""

    path: str
    text: str
    replace: bool = False


class Holder(TypedDict):
    """Process of another app that a project is open in, if any."""

    holder: int | None


class FindHolder(Request[Holder], op="holder", queue="files"):
    """Ask who else has a project open."""

    path: str


class LockProject(Request[Nothing], op="lock", queue="files"):
    """Make a project this app's, also where another app has it; None lets go of the last one."""

    path: str | None


class WriteJournal(Request[Nothing], op="journal", queue="files"):
    """Keep the unsaved state and what is being added aside; where `saved`, there is nothing to keep any more."""

    state: StateJson
    model: str
    project: str | None
    place: str | None
    """Folder that was opened, where it is no project."""
    adding: dict[str, list[str]]
    saved: bool


class Recovered(TypedDict, total=False):
    """What an app that is gone has left unsaved; empty where there is nothing."""

    state: StateJson
    model: str
    project: str | None
    place: str | None
    time: float
    """When it was kept, in seconds since the epoch."""
    adding: dict[str, list[str]]


class Recover(Request[Recovered], op="recover", queue="files"):
    """The newest journal of an app that is gone; `discard` removes such journals, with `own` this app's instead."""

    discard: bool = False
    own: bool = False


class ProtocolError(Exception):
    """A line that is no message, or a message that is no request."""


def encode(message: object) -> bytes:
    """One message as a line. ASCII only, so lone surrogates survive and nothing in it ends the line."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """A line as a message; raises ProtocolError if it is no JSON object."""
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
