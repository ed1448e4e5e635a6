"""What the app asks its engine about files: folders, projects, bundles, results, and what it keeps of unsaved work.

Each is a `Request` of `frn_tui.client.protocol`, or what one's end holds. Photos and classes are asked about there.
"""

from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict

from frn.inference.session import State, Support
from frn_tui.client.protocol import Request


class Entry(TypedDict):
    """Something in a folder."""

    name: str
    kind: Literal["folder", "image", "project", "bundle", "model"]


class Listing(TypedDict):
    """What a file picker shows of a folder. Folders first, each kind by name; hidden ones are skipped."""

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
    """Files of an image or a folder of images; beside the folders if there are classes."""
    classes: dict[str, list[str]]
    """Classes of a folder of class folders."""
    reason: NotRequired[str]


class ScanPath(Request[Found], op="scan", queue="files"):
    """Look at a path: a photo, a folder, a folder of class folders, a project."""

    path: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A project as it was read."""

    state: State
    model: str
    """As `OpenModel` takes it."""
    sha256: str


class LoadProject(Request[Loaded], op="load", queue="files"):
    """Read a project file."""

    path: str


class SaveProject(Request[None], op="save", queue="files"):
    """Write a project file. Fails with `EXISTS` or `OPEN_ELSEWHERE`."""

    path: str
    state: State
    replace: bool = False


Exported = Literal["classifier", "half", "page", "arrays"]
"""The whole classifier as ONNX; the same with weights of half the bytes; a web page; the numbers of the classes."""


class ExportClasses(Request[None], op="export", queue="compute"):
    """Write the classes for other programs. Fails with `EXISTS`."""

    path: str
    what: Exported = "classifier"
    replace: bool = False


class FindMissing(Request[list[str]], op="missing", queue="files"):
    """Ask which of some files are not there."""

    paths: list[str]


class StampFiles(Request[dict[str, list[int]]], op="stamp", queue="files"):
    """Ask for the size in bytes and time of change of files, by path; missing ones are skipped."""

    paths: list[str]


class RelocatePhotos(Request[dict[str, Support]], op="relocate", queue="files"):
    """Look for photos by their content, in a folder and all below it: those found, by key.

    Events: `progress` {done, total} of the found.
    """

    folder: str
    sizes: dict[str, int]
    """Bytes of each file, by its key: only files of such a size are read."""


class WriteBundle(Request[None], op="bundle", queue="compute"):
    """Write a project with its photos into a new folder, or a .zip. Fails with `EXISTS`."""

    path: str
    state: State
    replace: bool = False


class UnpackBundle(Request[str], op="unpack", queue="files"):
    """Unpack a bundle into a new folder, and return the path of its project. Fails with `EXISTS`."""

    path: str
    folder: str


class SortedPhotos(TypedDict):
    """What came of sorting photos into folders, or of moving them."""

    places: dict[str, str]
    """By the paths that were given: where each lies now."""
    failed: list[tuple[str, str]]
    """Paths that could not be put anywhere, and why."""
    twins: list[str]
    """Paths of photos that were removed, as the same photo was at its place already."""
    journal: str
    """Path of the file that says what was moved; empty if photos were copied."""


class SortPhotos(Request[SortedPhotos], op="sort", queue="compute"):
    """Copy photos into a folder for each verdict, or move them. Events: `progress` {done, total}."""

    folder: str
    photos: list[tuple[str, str]]
    """Path and verdict of each."""
    move: bool = False
    verdicts: tuple[str, ...] = ()
    """Those of all photos, where these are some of them: no two have one folder."""
    journal: str = ""
    """That of an act of moving which continues; empty: a new one."""


class MovePhotos(Request[SortedPhotos], op="move", queue="compute"):
    """Move photos back that were sorted into folders, or there once more."""

    journal: str
    photos: list[tuple[str, str, bool]]
    """For each: its first path, the path it was moved to, and whether a twin was there."""
    back: bool


class SettleMoves(Request[SortedPhotos], op="settle", queue="compute"):
    """Finish what programs that were killed had begun to move."""


class WriteText(Request[None], op="write", queue="files"):
    """Write results. Fails with `EXISTS`."""

    path: str
    text: str
    replace: bool = False


class FindHolder(Request[int | None], op="holder", queue="files"):
    """Ask for the process of another app that has a project open, if any."""

    path: str


class LockProject(Request[None], op="lock", queue="files"):
    """Make a project this app's, also where another app has it; None lets go of the last one."""

    path: str | None


class WriteJournal(Request[None], op="journal", queue="files"):
    """Keep the unsaved state and what is being added aside; where `saved`, there is nothing to keep any more."""

    state: State
    model: str
    project: str | None
    place: str | None
    """Folder that was opened, if it is not a project."""
    adding: dict[str, list[str]]
    saved: bool


@dataclass(frozen=True, slots=True)
class Recovered:
    """Unsaved work of an app that has ended."""

    journal: str
    """Path of the file that holds it."""
    state: State
    model: str
    project: str | None
    place: str | None
    time: float
    """When it was kept, in seconds since the epoch."""
    adding: dict[str, list[str]]


class Recover(Request[Recovered | None], op="recover", queue="files"):
    """The newest journal of an app that is gone, if any."""


class DiscardJournal(Request[None], op="discard", queue="files"):
    """Remove a journal that an app has left, or this app's own; those of others that are gone stay."""

    journal: str | None
    """As `Recovered` has it; None: the own one."""
