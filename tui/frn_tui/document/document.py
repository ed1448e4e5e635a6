"""The open document: the classes and their origin."""

from dataclasses import replace

from frn.inference.session import ClassEntry, Session, State


class Document:
    """A project, a folder of class folders, the samples, or something begun again."""

    def __init__(self) -> None:
        self.session = Session()
        self.project: str | None = None
        """Path of the project that is open."""
        self.place: str | None = None
        """Folder that was opened, if it is not a project."""
        self.sample_classes: frozenset[int] = frozenset()
        """Ids of the shipped classes, which step aside for the first one of the user's own."""
        self.model_name = ""
        self.first_threshold: float | None = None
        """Threshold of classes that are started again; None: calibrated."""

    @property
    def title(self) -> str:
        """What is open, in a word."""
        if self.shows_samples:
            return "samples"
        if self.project is not None:
            return self.project.rpartition("/")[2]
        return "unsaved" if self.place is None else f"{self.place.rstrip('/').rpartition('/')[2]}/"

    @property
    def names(self) -> dict[int, str]:
        return {entry.id: entry.name for entry in self.session.state.classes}

    def entry(self, class_id: int) -> ClassEntry | None:
        """A class by its id, if it is there still."""
        return next((entry for entry in self.session.state.classes if entry.id == class_id), None)

    @property
    def shows_samples(self) -> bool:
        """Return whether the classes are the shipped ones, and none of the user's own."""
        return bool(self.sample_classes) and self.names.keys() <= self.sample_classes

    def begin(self, state: State, *, is_saved: bool = True) -> None:
        """Put a document in place of the one that is open: nothing of it can be undone."""
        self.session = Session(replace(state, model=self.model_name), is_saved=is_saved)
        self.project = self.place = None
        self.sample_classes = frozenset()

    def step_aside(self) -> bool:
        """Take the samples away, as part of an edit that puts something of the user's own in their place."""
        if not self.shows_samples:
            return False
        self.session.replace_state(replace(self.session.state, classes=(), threshold=self.first_threshold))
        return True

    def create(self, name: str) -> int:
        """Make a class, and return its id; samples step aside."""
        with self.session.one_edit():
            self.step_aside()
            return self.session.create(name)
