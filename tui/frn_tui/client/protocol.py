"""What the app asks its engine and what the engine answers: messages of `frn.system.processes.messages`, over pipes.

The app asks `{"id": 7, "op": "embed", ...}`: a `Request` below, or of `file_requests`. The engine answers with any
number of events for that id, `{"id": 7, "event": "progress", ...}`, and one end: `{"id": 7, "end": "done", "result":
...}` of the request's type, `{"id": 7, "end": "failed", "reason": ..., "code": ...}` or `{"id": 7, "end":
"cancelled"}`. Without an id the engine says `{"event": "hello", "protocol": 1, "pid": ...}` once and `{"event":
"alive"}` every second. `{"op": "cancel", "target": 7}` cancels.

Two worker queues run side by side, so that a preview does not wait behind an embedding. Each serves in order; a
cancelled request that waits is dropped at once.

Paths are text as Python's `os.fsdecode` gives it. Feature maps never cross: images are named by the hash of their bytes
(`key`).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    NotRequired,
    Protocol,
    TypedDict,
    TypeVar,
    dataclass_transform,
    get_args,
)

from frn.errors import FrnError
from frn.inference.session import State
from frn.system.processes.messages import convert
from frn_tui.terminal.modes import Mode, Palette
from frn_tui.terminal.rendered_picture import Picture

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
    result: ClassVar[Any]
    """The type `Result`."""

    def __init_subclass__(cls, *, op: str, queue: Queue) -> None:
        cls.op, cls.queue = op, queue
        cls.result = get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined]
        REQUESTS[op] = dataclass(frozen=True)(cls)


class Engine(Protocol):
    """Whoever answers requests: the client, or a test's own."""

    def call(self, request: Request[Result], on_event: OnEvent | None = None) -> Awaitable[Result]:
        """Answer a request, or raise its failure (`EngineError`)."""


class EngineError(FrnError):
    """A request failed: the engine's reason, in one line. `code` names what the app continues from."""


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
    bytes: int
    """Size of its file."""


MIRROR = "+mirror"
"""Behind a model's name: it looks at a photo's mirror image as well."""


class OpenModel(Request[Model], op="open_model", queue="compute"):
    """Open a model in place of the last one."""

    model: str
    """A shipped name, or the path of a features.onnx; `MIRROR` may follow."""


class EmbedImages(Request[None], op="embed", queue="compute"):
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

    state: State


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


class AskClasses(Request[None], op="query", queue="compute"):
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
    interval: tuple[float, float]
    """Its 95 % interval."""


class HideAndTest(Request[Confusion], op="hide_and_test", queue="compute"):
    """Enroll `shot` examples per class, drawn by chance (the same ones each time), and classify the others."""

    shot: int


class ModelScore(TypedDict):
    """How well a model tells the classes apart."""

    model: str
    right: int
    """Examples that get their class, each judged without itself."""
    photos: int
    interval: tuple[float, float]
    """95 % interval of the share of those, in [0, 1]."""
    auroc: float | None
    """Chance that an example is more familiar than a photo of an unknown class; None with one class."""
    milliseconds: float
    bytes: int


class Compared(TypedDict):
    """Models on the same classes."""

    scores: list[ModelScore]
    differing: list[str]
    """Paths of examples that they do not all name alike."""


class CompareModels(Request[Compared], op="compare", queue="compute"):
    """Judge every example without itself under each of some models. Events: `progress` {done, total}."""

    classes: dict[str, list[str]]
    """Paths of the examples by class."""
    models: list[str]


class Heat(TypedDict):
    """An error map (h, w) of what the network sees of a photo, with the values of the first and the last colour."""

    map: list[list[float]]
    low: float
    high: float
    smooth: bool


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
    palette: Palette = ""
    """That a picture of characters is dithered to."""


def parse(message: Mapping[str, object]) -> Request[Any]:
    """Return the request that a message holds. ValueError if there is no such operation, or its arguments differ."""
    kind = REQUESTS.get(str(message.get("op")))
    if kind is None:
        raise ValueError(f"there is no operation {message.get('op')!r}")
    try:
        return convert(message, kind)
    except ValueError as error:
        raise ValueError(f"{kind.op}: {error}") from error
