"""Requests of the app to its engine, and the answers: messages of `frn.system.processes.messages`, over pipes.

The app sends `{"id": 7, "op": "embed", ...}`: a `Request` below, or of `file_requests`. The engine answers with any
number of events for that id, `{"id": 7, "event": "progress", ...}`, and a final message: `{"id": 7, "end": "done",
"result": ...}` of the request's type, `{"id": 7, "end": "failed", "reason": ..., "code": ...}` or `{"id": 7, "end":
"cancelled"}`. `{"op": "cancel", "target": 7}` cancels.

Two worker queues run side by side, so that a preview does not wait behind an embedding. Each processes its jobs in
order; a cancelled request that waits is dropped immediately.

Paths are text as returned by Python's `os.fsdecode`. Feature maps never cross: images are identified by the hash of
their bytes (`key`).
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, NotRequired, TypedDict, TypeVar, dataclass_transform, get_args

from frn.errors import FrnError
from frn.projects.session import Find, State
from frn.system.processes.messages import convert
from frn_tui.terminal.modes import Mode, Palette
from frn_tui.terminal.rendered_picture import Picture

INTERNAL, EXISTS, OPEN_ELSEWHERE, NOT_PLACED = "internal", "exists", "open_elsewhere", "not_placed"
"""Failure codes: a bug; a file already exists; a project is open in another app; a photo could not be sorted."""
MAPPED = 12  # number of most likely classes whose error maps are sent with an answer

Queue = Literal["files", "compute"]
Look = Literal["photo", "blend", "map"]  # a plain photo, a photo under the colours of an error map, or only the map
Result = TypeVar("Result", covariant=True)
OnEvent = Callable[[dict[str, Any]], None]

REQUESTS: dict[str, type["Request[Any]"]] = {}  # request types by operation


@dataclass_transform(frozen_default=True)
class Request(Generic[Result]):
    """A request to the engine, a dataclass that is never modified; `Result` is the type of its result."""

    op: ClassVar[str]
    queue: ClassVar[Queue]
    result: ClassVar[Any]  # the type `Result`

    def __init_subclass__(cls, *, op: str, queue: Queue) -> None:
        cls.op, cls.queue = op, queue
        cls.result = get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined]
        REQUESTS[op] = dataclass(init=False, repr=False, eq=False, match_args=False)(cls)

    def __init__(self, *values: object, **named: object) -> None:
        """Set the fields; methods that `dataclass` writes for each class take 5 ms of the start."""
        every = fields(self)  # type: ignore[arg-type]  # each request is a dataclass
        named.update(zip((each.name for each in every), values, strict=False))
        for each in every:
            default = each.default if each.default_factory is MISSING else each.default_factory()
            if (value := named.pop(each.name, default)) is MISSING:
                raise TypeError(f"{type(self).__name__} needs {each.name}")
            setattr(self, each.name, value)
        if named:
            raise TypeError(f"{type(self).__name__} has no {', '.join(named)}")

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)


class EngineError(FrnError):
    """A request failed: the engine's reason, in one line. `code` identifies failures that the app handles."""


class Model(TypedDict):
    sha256: str
    bytes: int  # size of its file
    head: str  # name of its head
    has_maps: bool  # true if its head gives error maps


MIRROR, VIEWS = "+mirror", "+views"
SUFFIXES: dict[str, str] = {"none": "", "hflip": MIRROR, "views": VIEWS, "auto": "+auto"}
"""Suffix of a model's name for each test-time augmentation."""


def split_suffix(model: str) -> tuple[str, str]:
    """Split the name of a model into the name without suffix, and the test-time augmentation."""
    tta = next((tta for tta, suffix in SUFFIXES.items() if suffix and model.endswith(suffix)), "none")
    return model.removesuffix(SUFFIXES[tta]), tta


class OpenModel(Request[Model], op="open_model", queue="compute"):
    """Open a model, replacing the last one."""

    model: str  # a shipped name, or the path of a features.onnx, optionally followed by one of `SUFFIXES`


class EmbedImages(Request[None], op="embed", queue="compute"):
    """Compute feature maps.

    Events: `embedded` per file, in order, {path, key, size, mtime_ns} or {path, reason}; `progress` {done, total}.
    """

    paths: list[str]


class ClassReport(TypedDict):
    """Statistics of an enrolled class."""

    id: int
    explained: dict[str, float]
    """Fraction of each example that the rest of its class explains, by key; empty for a single example."""
    rank: dict[str, int]
    """Leave-one-out rank of each example's own class; 0 means that the example would be classified correctly."""
    rival: dict[str, tuple[int, float, float, float]]
    """Id of the best class for an example by leave-one-out, if it is not the example's own; its lead: how much more of
    the example it explains than the rest of the example's class; a score that orders the likeliest mistakes; and the
    probability of that class."""
    near: dict[str, str]  # near duplicates among the examples of all classes: by key, the other example's key


class FoundBox(TypedDict):
    """The subject that was found in an example without a box."""

    box: list[int]  # left, top, width and height in pixels of the upright photo
    key: str  # key of this part


class ClassReports(TypedDict):
    """Statistics of all enrolled classes."""

    reports: list[ClassReport]
    threshold: float  # threshold in effect: the state's own, or the calibrated one
    known: dict[str, float]  # `known` of up to about a thousand examples by leave-one-out, by key; not of single ones
    expected: str  # expected error rates of the calibrated threshold, in a line
    unread: list[str]  # paths of photos that are new to the engine or have changed: embed them, then repeat the request
    away: list[str]  # paths of missing photos, which are not used
    unranked: int  # examples that take longer, among many classes or with a search: repeat the request for more
    boxes: dict[str, FoundBox]  # subjects that were found in examples without a box, by key


class SetClasses(Request[ClassReports], op="classes", queue="compute"):
    """Enroll these classes for all further answers.

    Events: `progress` {done, total}, if subjects are searched for in examples without a box.
    """

    state: State


class ChosenSearch(TypedDict):
    """Whether to search for subjects."""

    search: Find
    why: str  # the choice and its reason, in a line


class ChooseSearch(Request[ChosenSearch], op="choose_search", queue="compute"):
    """Decide by leave-one-out on the examples whether to search photos for their subject.

    Events: `progress` {done, total}.
    """

    state: State


class ClassScore(TypedDict):
    """Result of one class for a query."""

    id: int
    probability: float
    error: float
    explained: float


class Subject(TypedDict):
    """One of several subjects in a photo."""

    id: int  # its most likely class
    box: list[int]


class QueryAnswer(TypedDict):
    """An answer to a query."""

    path: str
    key: NotRequired[str]
    size: NotRequired[int]
    mtime_ns: NotRequired[int]
    scores: NotRequired[list[ClassScore]]  # scores, the most likely class first
    maps: NotRequired[dict[str, list[list[float]]]]
    """Error map (h, w) by class id, of the `MAPPED` most likely classes; only if a single path was given.

    It is empty if the head has no error maps.
    """
    nearest: NotRequired[str]  # key of the example that the most likely class rebuilds most of the photo from
    views: NotRequired[bool]  # whether a second look decided, so that error maps cover the whole photo
    box: NotRequired[list[int]]
    """Box of the subject that was classified, if subjects are searched for: left, top, width and height."""
    subjects: NotRequired[list[Subject]]  # all known ones, if all are searched for; only if a single path was given
    known: NotRequired[float]  # probability that the photo belongs to one of the classes, if it can be known
    unknown: NotRequired[bool]
    transductive: NotRequired[bool]
    near_copy: NotRequired[str]  # key of the example that is nearly the same photo; empty if there is none
    reason: NotRequired[str]  # reason why the photo has no answer


class AskClasses(Request[None], op="query", queue="compute"):
    """Classify photos. Events: `answer` (`QueryAnswer`) per path, in order; `progress` {done, total}."""

    paths: list[str]
    jointly: bool = False  # whether the photos refine the classes before they are scored


class ExamplePart(TypedDict):
    """The part of an example photo that a class rebuilds most of a cell from."""

    path: str
    box: list[float]  # left, top, width and height in fractions of the network's crop
    share: float  # its share of what the class rebuilds of the cell


class Rebuilt(TypedDict):
    """How a class rebuilds a photo, cell by cell, row after row."""

    id: int
    explained: list[float]
    examples: list[str]  # paths of the examples that it rebuilds most of the photo from, the most first
    sources: list[list[ExamplePart]]  # the best part of each of these examples, the largest share first


class DecidingPart(TypedDict):
    box: list[float]
    share: float  # share of the decision


class Why(TypedDict):
    """Why a photo is of one class rather than of another (`frn.inference.explanation`)."""

    sentence: str
    grid: list[int]  # height and width of the grid of cells
    views: bool  # whether the grid covers whole photos, because a second look decided
    shares: list[float]  # share of each cell in the decision
    parts: list[DecidingPart]
    classes: list[Rebuilt]  # the best class and, if there is one, the other


class ExplainPhoto(Request[Why], op="explain", queue="compute"):
    path: str
    examples: int = 6  # number of examples of each class


class Advise(Request[list[str]], op="advise", queue="compute"):
    """Return the most useful changes of the examples, at most three, each in a line (`frn.inference.lessons`)."""


class GroupPhotos(Request[list[list[str]]], op="group", queue="compute"):
    """Group unlabelled photos into probable classes, the largest group first."""

    paths: list[str]


class Heat(TypedDict):
    """An error map (h, w) of the network's crop, with the values of the first and last colour."""

    map: list[list[float]]
    low: float
    high: float
    smooth: bool


class RenderPreview(Request[Picture], op="preview", queue="files"):
    """Render a whole photo or a part of it to fit into that many cells."""

    path: str
    columns: int
    rows: int
    mode: Mode = "half"
    look: Look = "photo"
    heat: Heat | None = None  # error map to show, unless `look` is only the photo
    zoom: float = 1.0  # zoom factor: 2 shows half of the photo's width and height around `centre`, if it does not fit
    centre: list[float] = field(default_factory=lambda: [0.5, 0.5])  # x and y in fractions of the photo
    framed: bool = False  # draw a frame around the subject or, without one, around the network's crop
    subject: list[int] = field(default_factory=list)
    """Left, top, width and height in pixels of the part that the network sees in place of the whole photo."""
    views: bool = False  # whether a second look saw the photo, so that it saw all of it
    cell: list[int] = field(default_factory=lambda: [1, 2])
    """Width and height of a cell in pixels; only their ratio matters for characters."""
    colours: int = 256  # colours that the terminal has for Sixel images
    palette: Palette = ""  # palette to which an image made of characters is dithered


def parse(message: Mapping[str, object]) -> Request[Any]:
    """Return the request in a message. Raises ValueError if there is no such operation, or its arguments differ."""
    kind = REQUESTS.get(str(message.get("op")))
    if kind is None:
        raise ValueError(f"unknown operation {message.get('op')!r}")
    return convert(message, kind)
