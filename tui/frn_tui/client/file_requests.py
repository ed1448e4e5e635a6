"""Requests about files, and their results; the other requests are in `frn_tui.client.protocol`."""

from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict

from frn.projects.session import State, Support
from frn_tui.client.protocol import Request

Kind = Literal["folder", "image", "project", "bundle", "table", "model"]


class Entry(TypedDict):
    name: str
    kind: Kind


class Listing(TypedDict):
    """Contents of a folder for a file picker: folders first, then by kind and name, without hidden entries."""

    path: str  # absolute path, with `~` and `..` resolved
    entries: list[Entry]


class ListFolder(Request[Listing], op="list", queue="files"):
    path: str


class FindFolders(Request[list[str]], op="folders", queue="files"):
    """List the folders below a folder by their relative paths, nearest first, up to a limit."""

    path: str


class Level(TypedDict):
    """The classes in a folder by the names of its folders of one level."""

    level: int  # 1 or 2, or `frn.projects.folder_tree.DEEPEST`
    classes: dict[str, int]  # number of photos of each class
    photos: list[str]  # a photo of each of the first classes


class PathContents(TypedDict):
    """Contents of a path."""

    kind: Literal["image", "folder", "classes", "levels", "project", "bundle", "nothing"]
    """Kind of contents; if it is "nothing", `reason` says why.

    One image; a folder of images; classes in a folder, zip or CSV, or of one of several `levels`; a project; or a
    project with its photos in a zip.
    """
    files: list[str]  # files of an image or a folder of images; if there are classes, the files next to their folders
    classes: dict[str, list[str]]  # files of each class, and of the photos that belong to none of them (`is_no_class`)
    levels: NotRequired[list[Level]]
    skipped: NotRequired[list[str]]  # reasons for skipped rows and files, and remarks on the classes
    reason: NotRequired[str]


class ScanPath(Request[PathContents], op="scan", queue="files"):
    """Inspect a path: a photo, a folder, a folder of class folders, or a project."""

    path: str
    level: int | None = None  # level of the class folders in a tree of several levels


@dataclass(frozen=True, slots=True)
class Loaded:
    state: State
    model: str  # model name as for `OpenModel`
    sha256: str
    has_changed: bool = False  # whether the file of the open model has changed since it was opened
    notes: tuple[str, ...] = ()  # what to report about the file


class LoadProject(Request[Loaded], op="load", queue="files"):
    path: str


class SaveProject(Request[None], op="save", queue="files"):
    """Write a project file. Fails with `EXISTS` or `OPEN_ELSEWHERE`."""

    path: str
    state: State
    replace: bool = False
    origin: str | None = None  # project that they were loaded from or saved as, which is replaced without asking


Exported = Literal["classifier", "page"]  # the whole classifier as ONNX, or a web page


class ExportClasses(Request[str], op="export", queue="compute"):
    """Write the classes for other programs; returns what they still need, or "". Fails with `EXISTS`."""

    path: str
    what: Exported = "classifier"
    replace: bool = False


class StampFiles(Request[dict[str, tuple[int, int]]], op="stamp", queue="files"):
    """Request the size in bytes and modification time of files, by path; missing ones are skipped."""

    paths: list[str]


class RelocatePhotos(Request[dict[str, Support]], op="relocate", queue="files"):
    """Search a folder and all its subfolders for photos by content: those found, by key.

    Events: `progress` {done, total} of the photos found.
    """

    folder: str
    sizes: dict[str, int]  # size of each file in bytes, by key: only files of these sizes are read
    boxes: tuple[str, ...] = ()  # ends of the names of missing boxes, which are also looked for in these files


class WriteBundle(Request[None], op="bundle", queue="compute"):
    """Write a project with its photos to a new folder or a .zip. Fails with `EXISTS`."""

    path: str
    state: State
    replace: bool = False


class UnpackBundle(Request[str], op="unpack", queue="files"):
    """Unpack a bundle into a new folder, and return the path of its project. Fails with `EXISTS`."""

    path: str
    folder: str


class Placed(TypedDict):
    place: str
    is_twin: bool  # whether the photo was removed because its new place already held the same photo
    journal: str  # path of the journal of the move; empty if the photo was copied


class SortPhoto(Request[Placed], op="sort", queue="compute"):
    """Copy or move a photo to the folder of its verdict. Fails with `NOT_PLACED` if only this photo failed."""

    folder: str
    path: str
    verdict: str
    verdicts: tuple[str, ...]  # verdicts of all photos: each gets its own folder
    move: bool = False
    journal: str = ""  # journal of a move to continue; empty for a new one


class Planned(TypedDict):
    moves: int
    folders: int
    stay: int  # photos that are there already or are not files, such as those in a zip
    taken: int  # photos that get a number because another file has their name
    journal: str  # path of the journal if the move begins; empty otherwise


class PlanMoves(Request[Planned], op="plan", queue="compute"):
    """Describe a move of photos to the folders of their verdicts, and begin it on request."""

    folder: str
    photos: list[tuple[str, str]]
    verdicts: tuple[str, ...]
    begin: bool = False


class EndMoves(Request[None], op="end", queue="compute"):
    """Record that the moves of a journal have ended, so that the rest is not offered again."""

    journal: str


@dataclass(frozen=True, slots=True)
class LeftMoves:
    """Moves of an earlier app that were interrupted or can be taken back."""

    journal: str
    folder: str
    time: float  # time of the last one, in seconds since the epoch
    photos: list[tuple[str, str, bool]]  # moved photos, as in `Moves`
    rest: list[tuple[str, str]]  # photos of the plan that were not moved, with their verdicts
    verdicts: list[str]


class FindMoves(Request[LeftMoves | None], op="left", queue="compute"):
    """Ask for the newest interrupted moves, or for the newest moves that can be taken back."""

    interrupted: bool


class MovePhoto(Request[None], op="move", queue="compute"):
    """Undo or redo the move of a sorted photo. Fails as `SortPhoto`."""

    journal: str
    source: str
    target: str
    is_twin: bool
    back: bool


class SettleMoves(Request[tuple[dict[str, str], list[tuple[str, str]]]], op="settle", queue="compute"):
    """Finish moves that killed programs left incomplete: new paths by old ones, and lost photos with the reasons."""


class WriteText(Request[None], op="write", queue="files"):
    """Write results. Fails with `EXISTS`."""

    path: str
    text: str
    replace: bool = False


class FindHolder(Request[int | None], op="holder", queue="files"):
    """Request the process of another app that has a project open, if any."""

    path: str


class LockProject(Request[None], op="lock", queue="files"):
    """Lock a project for this app, even if another app has it open; None only releases the last one."""

    path: str | None


class WriteJournal(Request[None], op="journal", queue="files"):
    """Save the unsaved state and the photos being added."""

    state: State
    model: str
    project: str | None
    place: str | None  # folder that was opened, if it is not a project
    adding: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Recovered:
    """Unsaved work of an app that is no longer running."""

    journal: str  # path of its journal
    state: State
    model: str
    project: str | None
    place: str | None
    time: float  # time of saving, in seconds since the epoch
    adding: dict[str, list[str]]


class Recover(Request[Recovered | None], op="recover", queue="files"):
    """Ask for the newest unsaved work of an app that is no longer running."""


class DiscardJournal(Request[None], op="discard", queue="files"):
    """Remove the journal of this app or of an ended one; other journals stay."""

    journal: str | None  # path as in `Recovered`; None: this app's own journal
