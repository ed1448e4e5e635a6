"""The open document: the classes and their origin."""

from dataclasses import replace

from frn.inference.session import ClassEntry, Session, State


class Document:
    """A project, a folder of class folders, the samples, or new classes."""

    def __init__(self) -> None:
        self.session = Session()
        self.project: str | None = None
        """Path of the open project."""
        self.place: str | None = None
        """Folder that was opened, if it is not a project."""
        self.sample_classes: frozenset[int] = frozenset()
        """Ids of the shipped classes, which the user's first class replaces."""
        self.model_name = ""
        self.first_threshold: float | None = None
        """Threshold of new documents; None calibrates it."""

    @property
    def title(self) -> str:
        """Short name of the document."""
        if self.shows_samples:
            return "samples"
        if self.project is not None:
            return self.project.rpartition("/")[2]
        return "unsaved" if self.place is None else f"{self.place.rstrip('/').rpartition('/')[2]}/"

    @property
    def names(self) -> dict[int, str]:
        return {entry.id: entry.name for entry in self.session.state.classes}

    def entry(self, class_id: int) -> ClassEntry | None:
        """Return a class by its id, or None if it no longer exists."""
        return next((entry for entry in self.session.state.classes if entry.id == class_id), None)

    @property
    def shows_samples(self) -> bool:
        """Return whether the classes are only the shipped ones."""
        return bool(self.sample_classes) and self.names.keys() <= self.sample_classes

    def begin(self, state: State, *, is_saved: bool = True) -> None:
        """Replace the open document; this cannot be undone."""
        self.session = Session(replace(state, model=self.model_name), is_saved=is_saved)
        self.project = self.place = None
        self.sample_classes = frozenset()

    def step_aside(self) -> bool:
        """Remove the samples, as part of an edit that adds the user's own classes."""
        if not self.shows_samples:
            return False
        self.session.replace_state(replace(self.session.state, classes=(), threshold=self.first_threshold))
        return True

    def create(self, name: str) -> int:
        """Create a class and return its id; this replaces the samples."""
        with self.session.one_edit():
            self.step_aside()
            return self.session.create(name)
